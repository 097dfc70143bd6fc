# The pause program for x86-64 Linux: holds a pod's namespaces open and is their pid 1.
#
# It reaps every orphan, and ends with status 0 at SIGTERM or SIGINT. The kernel drops signals
# that pid 1 of a namespace has no handler for, but never blocked ones; so the three signals are
# blocked and then waited for, and no handler (and no return trampoline) is needed.
#
# No memory but 8 bytes of stack, no libc, no file access: it does not matter which user it runs
# as or whether the root file system can be written.
#
# `code.rs` holds the assembled bytes; its test assembles this file and compares.

        .set    SYS_rt_sigprocmask, 14
        .set    SYS_wait4, 61
        .set    SYS_rt_sigtimedwait, 128
        .set    SYS_exit_group, 231
        .set    SIGCHLD, 17
        .set    EINTR, 4
        .set    WNOHANG, 1
        # Signal n is bit n - 1: SIGINT 2, SIGTERM 15, SIGCHLD 17.
        .set    SIGNALS, (1 << 1) | (1 << 14) | (1 << 16)

        .text
        .globl  _start
_start:
        pushq   $SIGNALS                # the set lives at (%rsp) from here on
        xorl    %edi, %edi              # SIG_BLOCK
        movq    %rsp, %rsi
        xorl    %edx, %edx              # the old set is of no interest
        movl    $8, %r10d               # bytes in a set
        movl    $SYS_rt_sigprocmask, %eax
        syscall

reap:                                   # one SIGCHLD can stand for many children
        movq    $-1, %rdi               # any child
        xorl    %esi, %esi
        movl    $WNOHANG, %edx
        xorl    %r10d, %r10d
        movl    $SYS_wait4, %eax
        syscall
        testq   %rax, %rax
        jg      reap                    # until 0 (none has ended) or ECHILD (none is left)

        movq    %rsp, %rdi
        xorl    %esi, %esi              # who sent it is of no interest
        xorl    %edx, %edx              # no time limit
        movl    $8, %r10d
        movl    $SYS_rt_sigtimedwait, %eax
        syscall
        cmpl    $SIGCHLD, %eax
        je      reap
        cmpl    $-EINTR, %eax           # stopped and continued, or traced
        je      reap

        xorl    %edi, %edi              # SIGTERM, SIGINT: status 0
        testl   %eax, %eax
        jg      end
        incl    %edi                    # a kernel that refuses to wait: status 1, never a spin
end:
        movl    $SYS_exit_group, %eax
        syscall
