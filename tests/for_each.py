"""One test of many things of a kind, where a test for each would take longer to report than run."""

import functools


def for_each(things):
    """Call a test with each of `things`, and fail with the names of all for which it fails."""

    def decorate(test):
        def of_all():
            failed = []
            for thing in things:
                try:
                    test(thing)
                except AssertionError as error:
                    failed.append(f"{thing}: {error}")
            assert not failed, "\n".join(failed)

        # By this attribute pytest would find the parameter, and take it for a fixture.
        functools.update_wrapper(of_all, test)
        del of_all.__wrapped__
        return of_all

    return decorate
