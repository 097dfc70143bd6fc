/* The seccomp filter of both programs, which define AUDIT_ARCH and the numbers of their calls.
 *
 * struct sock_filter: code, steps if equal, steps if not, value. The filter sees a struct
 * seccomp_data: the number of the call at 0, the architecture at 4.
 */

        .set    LOAD, 0x20
        .set    IF_EQUAL, 0x15
        .set    RETURN, 0x06
        .set    ALLOW, 0x7fff0000
        .set    FAIL_WITH_EPERM, 0x00050001
        .macro  step code, yes, no, value
        .short  \code
        .byte   \yes, \no
        .long   \value
        .endm

.Lfilter:
        step    LOAD, 0, 0, 4
        step    IF_EQUAL, 0, 4, AUDIT_ARCH
        step    LOAD, 0, 0, 0
        step    IF_EQUAL, 3, 0, SYS_wait4
        step    IF_EQUAL, 2, 0, SYS_rt_sigtimedwait
        step    IF_EQUAL, 1, 0, SYS_exit_group
        step    RETURN, 0, 0, FAIL_WITH_EPERM
        step    RETURN, 0, 0, ALLOW

        .globl  dockbridge_pause_end
        .hidden dockbridge_pause_end
dockbridge_pause_end:
        .popsection
