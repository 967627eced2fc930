"""Docstrings of estimators, which also describe what the classes inherit."""

from sparsegpc._estimators.base_estimator import Estimator, with_parameters


@with_parameters
class Parent(Estimator):
    """An estimator.

    Parameters
    ----------
    a : int, default=1
        The first one.

        In two paragraphs.
    b : int, default=2
        The second one.

    Attributes
    ----------
    a_ : int
        What was learned.

    Notes
    -----
    Those of the parent.
    """

    a: int = 1
    b: int = 2


def test_a_docstring_describes_what_the_class_inherits():
    @with_parameters
    class Child(Parent):
        r"""Another estimator, with \mu.

        Parameters
        ----------
        c : int, default=3
            The third one.
        a : int, default=0
            Replaced.

        Attributes
        ----------
        c_, d_ : int
            Two numbers.
        """

        c: int = 3
        a: int = 0

    assert Child.__doc__.splitlines() == [
        "Another estimator, with \\mu.",
        "",
        "Parameters",
        "----------",
        "a : int, default=0",
        "    Replaced.",
        "b : int, default=2",
        "    The second one.",
        "c : int, default=3",
        "    The third one.",
        "",
        "Attributes",
        "----------",
        "a_ : int",
        "    What was learned.",
        "c_, d_ : int",
        "    Two numbers.",
    ]


def test_a_docstring_keeps_paragraphs_and_other_sections():
    lines = Parent.__doc__.splitlines()
    assert lines[4:8] == ["a : int, default=1", "    The first one.", "", "    In two paragraphs."]
    assert lines[-3:] == ["Notes", "-----", "Those of the parent."]


def test_a_class_without_a_docstring_may_inherit():
    """As with ``python -OO``, which removes all of them."""

    @with_parameters
    class Child(Parent):
        c: int = 3

    assert Child().get_params() == {"a": 1, "b": 2, "c": 3}
    assert "Parameters" not in Child.__doc__
