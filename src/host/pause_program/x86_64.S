# The pause program for x86-64 Linux: holds a pod's namespaces open and is their pid 1.
#
# It reaps every orphan, and ends with status 0 at SIGTERM or SIGINT. The kernel drops signals
# that pid 1 of a namespace has no handler for, but never blocked ones; so the three signals are
# blocked and then waited for, and no handler (and no return trampoline) is needed.
#
# No memory but 24 bytes of stack, no libc, no file access: it does not matter which user it runs
# as or whether the root file system can be written.
#
# It confines itself by a seccomp filter to the three system calls that it makes from then on. A
# kernel without seccomp refuses the filter, and it goes on without, as the engine does there.
#
# `pause_program.rs` assembles it, with `filter.S` behind it.

        .set    SYS_rt_sigprocmask, 14
        .set    SYS_prctl, 157
        .set    SYS_wait4, 61
        .set    SYS_rt_sigtimedwait, 128
        .set    SYS_exit_group, 231
        .set    PR_SET_NO_NEW_PRIVS, 38
        .set    PR_SET_SECCOMP, 22
        .set    SECCOMP_MODE_FILTER, 2
        .set    AUDIT_ARCH, 0xc000003e
        .set    SIGCHLD, 17
        .set    EINTR, 4
        .set    WNOHANG, 1
        .set    FILTER_LENGTH, 8
        # Signal n is bit n - 1: SIGINT 2, SIGTERM 15, SIGCHLD 17.
        .set    SIGNALS, (1 << 1) | (1 << 14) | (1 << 16)

        .pushsection .rodata.dockbridge_pause, "a", @progbits
        .balign 8
        .globl  dockbridge_pause
        .hidden dockbridge_pause
dockbridge_pause:
        leaq    .Lfilter(%rip), %rax    # struct sock_fprog: a length and an address
        pushq   %rax
        .byte   0x68                    # pushq $FILTER_LENGTH, in the long form, so that
        .long   FILTER_LENGTH           # the image keeps its id
        pushq   $SIGNALS                # the set lives at (%rsp) from here on
        xorl    %edi, %edi              # SIG_BLOCK
        movq    %rsp, %rsi
        xorl    %edx, %edx              # the old set is of no interest
        movl    $8, %r10d               # bytes in a set
        movl    $SYS_rt_sigprocmask, %eax
        syscall

        movl    $PR_SET_NO_NEW_PRIVS, %edi # without it only CAP_SYS_ADMIN may install one
        movl    $1, %esi
        xorl    %edx, %edx
        xorl    %r10d, %r10d
        xorl    %r8d, %r8d
        movl    $SYS_prctl, %eax
        syscall
        movl    $PR_SET_SECCOMP, %edi
        movl    $SECCOMP_MODE_FILTER, %esi
        leaq    8(%rsp), %rdx
        movl    $SYS_prctl, %eax
        syscall

.Lreap:                                 # one SIGCHLD can stand for many children
        movq    $-1, %rdi               # any child
        xorl    %esi, %esi
        movl    $WNOHANG, %edx
        xorl    %r10d, %r10d
        movl    $SYS_wait4, %eax
        syscall
        testq   %rax, %rax
        jg      .Lreap                  # until 0 (none has ended) or ECHILD (none is left)

        movq    %rsp, %rdi
        xorl    %esi, %esi              # who sent it is of no interest
        xorl    %edx, %edx              # no time limit
        movl    $8, %r10d
        movl    $SYS_rt_sigtimedwait, %eax
        syscall
        cmpl    $SIGCHLD, %eax
        je      .Lreap
        cmpl    $-EINTR, %eax           # stopped and continued, or traced
        je      .Lreap

        xorl    %edi, %edi              # SIGTERM, SIGINT: status 0
        testl   %eax, %eax
        jg      .Lend
        incl    %edi                    # a kernel that refuses to wait: status 1, never a spin
.Lend:
        movl    $SYS_exit_group, %eax
        syscall

        .balign 8, 0x90
