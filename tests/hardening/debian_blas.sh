#!/bin/sh
# Interpreters of Debian 12's numpy and scipy, each with another BLAS, without installing a package:
#     tests/hardening/debian_blas.sh FOLDER
# makes the commands FOLDER/reference, FOLDER/atlas, FOLDER/blis and FOLDER/openblas. They are older
# than sparsegpc asks for (numpy 1.24, scipy 1.10), but fits run, except that points do not move.
# PYTHON, of version 3.11, makes the environment for scikit-learn.
set -eu
mkdir -p "$1/packages" "$1/root"
folder=$(realpath "$1")
root=$(realpath "$(dirname "$0")/../..")
cd "$folder/packages"
apt-get download libblas3 liblapack3 libgfortran5 libquadmath0 liblbfgsb0 libatlas3-base \
    libblis4-serial libopenblas0-serial python3-numpy python3-scipy python3-decorator
for package in *.deb; do dpkg -x "$package" "$folder/root"; done
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-deps \
    scikit-learn==1.6.1 joblib==1.4.2 threadpoolctl==3.5.0
libraries="$folder/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)"
interpreter() {
    cat > "$folder/$1" <<END
#!/bin/sh
export LD_LIBRARY_PATH=$2:$libraries
export PYTHONPATH=$root:$folder/root/usr/lib/python3/dist-packages
exec $folder/venv/bin/python "\$@"
END
    chmod +x "$folder/$1"
}
interpreter reference "$libraries/blas:$libraries/lapack"
interpreter atlas "$libraries/atlas"
interpreter blis "$libraries/blis-serial:$libraries/lapack"
interpreter openblas "$libraries/openblas-serial"
