# Engines that lie unpacked in a folder, for world.sh and vm.sh, which source this: their names and their programs.
#
# The name of such an engine is the folder's path, which has a slash, and perhaps the image store it is to use:
# /folder, /folder:containerd, /folder:overlay2. Without a store the engine uses its default.

# folder_of ENGINE: the absolute path of its folder.
folder_of() {
    case $1 in
        *:containerd | *:overlay2) realpath -ms "${1%:*}" ;;
        *) realpath -ms "$1" ;;
    esac
}

# store_of ENGINE: the store that its name asks for, if any.
store_of() {
    case $1 in
        sid-containerd | */*:containerd) echo containerd ;;
        */*:overlay2) echo overlay2 ;;
    esac
}

# programs_in ROOT: the folders in it that can have an engine's programs, as in PATH. ROOT itself is for Docker's static
# archives.
programs_in() { printf '%s:%s/usr/sbin:%s/usr/bin:%s/usr/libexec/docker\n' "${1:-/}" "$1" "$1" "$1"; }

# missing_in FOLDER PROGRAM…: those of the programs that it does not have, on one line.
missing_in() {
    local folder=$1 program found
    shift
    for program in "$@"; do
        # bash also prints a file that cannot be executed, if there is no other.
        found=$(PATH=$(programs_in "$folder") type -P "$program") && [ -x "$found" ] || printf '%s ' "$program"
    done
}

# check_folder ENGINE: prints what is wrong with it, and fails. The machine's programs do not stand in for missing ones.
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
        echo "no whole engine in $folder: missing ${missing% }"
    else
        return 0
    fi
    return 1
}
