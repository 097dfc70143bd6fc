// The pause program for 64-bit ARM Linux: holds a pod's namespaces open and is their pid 1.
//
// The same program, step by step, as x86_64.S, which has the reasons.

        .set    SYS_exit_group, 94
        .set    SYS_rt_sigprocmask, 135
        .set    SYS_rt_sigtimedwait, 137
        .set    SYS_prctl, 167
        .set    SYS_wait4, 260
        .set    PR_SET_NO_NEW_PRIVS, 38
        .set    PR_SET_SECCOMP, 22
        .set    SECCOMP_MODE_FILTER, 2
        .set    AUDIT_ARCH, 0xc00000b7
        .set    SIGCHLD, 17
        .set    EINTR, 4
        .set    WNOHANG, 1
        .set    FILTER_LENGTH, 8
        // Signal n is bit n - 1: SIGINT 2, SIGTERM 15, SIGCHLD 17.
        .set    SIGNALS_LOW, (1 << 1) | (1 << 14)
        .set    SIGNALS_HIGH, 1

        .pushsection .rodata.dockbridge_pause, "a", @progbits
        .balign 8
        .globl  dockbridge_pause
        .hidden dockbridge_pause
dockbridge_pause:
        mov     x9, #FILTER_LENGTH      // struct sock_fprog: a length and an address
        adr     x10, .Lfilter
        stp     x9, x10, [sp, #-16]!
        movz    x9, #SIGNALS_LOW
        movk    x9, #SIGNALS_HIGH, lsl #16
        str     x9, [sp, #-16]!         // the set lives at [sp] from here on
        mov     x0, #0                  // SIG_BLOCK
        mov     x1, sp
        mov     x2, #0                  // the old set is of no interest
        mov     x3, #8                  // bytes in a set
        mov     x8, #SYS_rt_sigprocmask
        svc     #0

        mov     x0, #PR_SET_NO_NEW_PRIVS // without it only CAP_SYS_ADMIN may install one
        mov     x1, #1
        mov     x2, #0
        mov     x3, #0
        mov     x4, #0
        mov     x8, #SYS_prctl
        svc     #0
        mov     x0, #PR_SET_SECCOMP
        mov     x1, #SECCOMP_MODE_FILTER
        add     x2, sp, #16
        mov     x8, #SYS_prctl
        svc     #0

.Lreap:                                 // one SIGCHLD can stand for many children
        mov     x0, #-1                 // any child
        mov     x1, #0
        mov     x2, #WNOHANG
        mov     x3, #0
        mov     x8, #SYS_wait4
        svc     #0
        cmp     x0, #0
        b.gt    .Lreap                  // until 0 (none has ended) or ECHILD (none is left)

        mov     x0, sp
        mov     x1, #0                  // who sent it is of no interest
        mov     x2, #0                  // no time limit
        mov     x3, #8
        mov     x8, #SYS_rt_sigtimedwait
        svc     #0
        cmp     x0, #SIGCHLD
        b.eq    .Lreap
        cmn     x0, #EINTR              // stopped and continued, or traced
        b.eq    .Lreap

        cmp     x0, #0
        cset    x0, le                  // SIGTERM, SIGINT: 0; a kernel that refuses to wait: 1
        mov     x8, #SYS_exit_group
        svc     #0
