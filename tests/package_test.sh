#!/usr/bin/env bash
# Makes the packages of a build and uses them as on another machine: no shared library but glibc's, an empty environment,
# plain x86-64.
#   tests/package_test.sh BUILD
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
die() { printf 'package_test: %s\n' "$*" >&2; exit 1; }

grep -q '^RIDGE_PORTABLE:BOOL=ON' "$build/CMakeCache.txt" || die "expected a build with RIDGE_PORTABLE=ON in $build"
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
rm -rf "$build/packages"
cpack --config "$build/CPackConfig.cmake" >"$folder/log" 2>&1 || { cat "$folder/log"; die 'cpack failed'; }

# has LIST WHAT FILE…: the list of files has each of these.
has() {
  local file
  for file in "${@:3}"; do grep -qE "$file\$" <<<"$1" || die "expected $file in $2, found: $1"; done
}
archives=("$build/packages/ridge-$version"-linux-*.tar.gz "$build/packages/ridge-development-$version"-linux-*.tar.gz)
tar -xzf "${archives[0]}" -C "$folder"
runtime=$(find "$folder" -type f)
has "$runtime" "${archives[0]}" '/bin/ridge' '/share/man/man1/ridge\.1' '/bash-completion/completions/ridge' '/ridge/LICENSE' '/README\.md' '/machines/h200\.toml' '/models/llama_3_8b\.json'
[[ $runtime != */include/* && $runtime != *.a ]] || die "${archives[0]} has files for development: $runtime"
tar -xzf "${archives[1]}" -C "$folder"
development=$(find "$folder")
has "$development" "${archives[1]}" '/include/ridge/ridge\.h' '/lib/libridge\.a' '/lib/libridge_c\.so' '/ridgeConfig\.cmake' '/ridge\.pc'
[[ $(find "$folder" -mindepth 1 -maxdepth 1 -type d | wc -l) == 1 ]] || die 'expected one folder at the top of both archives'
top=$(find "$folder" -mindepth 1 -maxdepth 1 -type d)

# Only glibc is needed.
for file in bin/ridge lib/libridge_c.so; do
  needed=$(objdump -p "$top/$file" | awk '$1 == "NEEDED" {print $2}' | grep -vxE 'lib(c|m|dl|pthread|rt)\.so\.[0-9]|ld-linux[^ ]*' || true)
  [[ -z $needed ]] || die "$file needs $needed"
done

product='bf16[B, D] * bf16[D, F] -> bf16[B, F]'
run() { (cd / && env -i HOME="$folder" "$@"); }
[[ $(run "$top/bin/ridge" --version) == *"$version"* ]] || die "the program does not print the version $version"
found=$(run "$top/bin/ridge" explain "$product" --on h200 -d B=64 D=4096 F=14336)
[[ $found == *memory-bound* ]] || die "explain printed: $found"
for isa in '' plain; do
  found=$(run ${isa:+RIDGE_ISA=$isa} "$top/bin/ridge" run "$product" -d B=16 D=256 F=256)
  [[ $found == *checked* ]] || die "run with RIDGE_ISA='$isa' printed: $found"
done
if command -v qemu-x86_64 >/dev/null; then  # a CPU of 2008, without AVX
  found=$(run "$(command -v qemu-x86_64)" -cpu Nehalem "$top/bin/ridge" run "$product" -d B=4 D=64 F=64)
  [[ $found == *checked* ]] || die "run on a CPU without AVX printed: $found"
fi

if [[ -f $build/packages/ridge_${version}_amd64.deb ]]; then
  control=$(dpkg-deb -f "$build/packages/ridge_${version}_amd64.deb" Package Version Depends)
  [[ $control =~ ^"Package: ridge"$'\n'"Version: $version"$'\n'"Depends: libc6 (>= "[0-9.]+")"$ ]] || die "the control file of ridge has: $control"
  has "$(dpkg-deb -c "$build/packages/ridge_${version}_amd64.deb")" 'the package ridge' ' \./usr/bin/ridge' ' \./usr/share/man/man1/ridge\.1\.gz' \
    ' \./usr/share/doc/ridge/copyright' ' \./usr/share/doc/ridge/changelog\.gz'
  dpkg-deb -x "$build/packages/ridge_${version}_amd64.deb" "$folder/root"
  [[ $(run "$folder/root/usr/bin/ridge" --version) == *"$version"* ]] || die 'the program of the package does not start'
  control=$(dpkg-deb -f "$build/packages/libridge-dev_${version}_amd64.deb" Depends)
  [[ $control == 'libfmt-dev, libtomlplusplus-dev, libc6 (>= '* ]] || die "libridge-dev depends on: $control"
  has "$(dpkg-deb -c "$build/packages/libridge-dev_${version}_amd64.deb")" 'the package libridge-dev' ' \./usr/include/ridge/c\.h' \
    ' \./usr/lib/libridge\.a' ' \./usr/lib/libridge_c\.so -> libridge_c\.so\.[0-9]+'
fi
echo "package_test: $(cd "$build/packages" && echo *)"
