# Names and programs of engines that are unpacked in a folder. world.sh and vm.sh source this file.
#
# The name of such an engine is the folder's path, which has a slash, and optionally the image store: /folder,
# /folder:containerd, /folder:overlay2. Without a store the engine uses its default.

# folder_of ENGINE: prints the absolute path of its folder.
folder_of() {
    case $1 in
        *:containerd | *:overlay2) realpath -ms "${1%:*}" ;;
        *) realpath -ms "$1" ;;
    esac
}

# store_of ENGINE: prints the image store in its name, if there is one.
store_of() {
    case $1 in
        sid-containerd | */*:containerd) echo containerd ;;
        */*:overlay2) echo overlay2 ;;
    esac
}

# programs_in ROOT: prints the folders that may have an engine's programs, as in PATH. Docker's static archives have them in
# ROOT itself.
programs_in() { printf '%s:%s/usr/sbin:%s/usr/bin:%s/usr/libexec/docker\n' "${1:-/}" "$1" "$1" "$1"; }

# missing_in FOLDER PROGRAM…: prints the programs that the folder lacks, on one line.
missing_in() {
    local folder=$1 program found
    shift
    for program in "$@"; do
        # bash also prints a file that cannot be executed, if there is no other.
        found=$(PATH=$(programs_in "$folder") type -P "$program") && [ -x "$found" ] || printf '%s ' "$program"
    done
}

# check_folder ENGINE: fails and prints why, if the folder is not a complete engine. The machine's programs are never used
# for missing ones.
check_folder() {
    local folder missing
    folder=$(folder_of "$1")
    missing=$(missing_in "$folder" dockerd containerd containerd-shim-runc-v2 runc docker-proxy)
    if [ ! -d "$folder" ]; then
        case ${1##*/} in
            *:*) echo "no folder $folder; image stores are :containerd and :overlay2" ;;
            *) echo "no folder $folder" ;;
        esac
    elif [ -n "$missing" ]; then
        echo "no complete engine in $folder: missing ${missing% }"
    else
        return 0
    fi
    return 1
}
