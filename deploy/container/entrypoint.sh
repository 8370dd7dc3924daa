#!/bin/bash
# Starts aclnn-serve, with CANN's environment where the image holds CANN: its libraries look for each other
# along LD_LIBRARY_PATH, which a process reads once, when it begins.
for home in "${ASCEND_HOME_PATH:-}" "${ASCEND_TOOLKIT_HOME:-}" \
    /usr/local/Ascend/cann /usr/local/Ascend/ascend-toolkit /usr/local/Ascend/nnrt; do
    if [[ -r $home/set_env.sh ]]; then
        # shellcheck disable=SC1091
        source "$home/set_env.sh"
        break
    fi
done
exec aclnn-serve "$@"
