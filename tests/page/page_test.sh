#!/usr/bin/env bash
# page_test.sh RIDGE FOLDER: the page in a browser (page_test.mjs). Exit code 77, which ctest calls skipped, where node
# or Chromium is absent; axe-core is taken from FOLDER/node_modules where it is there. `.ci/run` installs all three.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
ridge=$1 folder=$2
command -v node >/dev/null || { echo 'SKIPPED: no node here, so the page was not opened (apt-get install nodejs)'; exit 77; }
[[ -n ${RIDGE_CHROMIUM:-} ]] || command -v chromium >/dev/null || command -v chromium-browser >/dev/null ||
  command -v google-chrome >/dev/null || { echo 'SKIPPED: no Chromium here, so the page was not opened (apt-get install chromium)'; exit 77; }
axe=$folder/node_modules/axe-core/axe.min.js
[[ -f $axe ]] || axe=
exec node "$here/page_test.mjs" "$ridge" ${axe:+"$axe"}
