/*
 * Ctrl-C that the kernel gives to a thread of Go.
 *
 * A signal for the process runs its handler on any thread that does not block it, those of the Go runtime
 * included: one that has just started takes what waits for the main thread. Before Python 3.13 the interpreter then
 * notes the signal, but the loop of the main thread does not look, since the thread that noted it was not the one to
 * handle it: a program that computes goes on for ever (B377). Go's threads cannot block signals, as every
 * program that a Go function starts would have them blocked, too.
 *
 * So a handler is put in front of the one that is there when this library is loaded, and sends the signal on to
 * the process's first thread. Where another thread loads the library, Python's main thread may not be the first, and
 * nothing is changed. Handlers that a program sets with signal.signal replace it.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __linux__

static struct sigaction before; /* Python's, of SIGINT */

static void on_interrupt(int sig, siginfo_t *info, void *context)
{
	pid_t process = getpid(); /* that of a child, after fork */

	if (syscall(SYS_gettid) != process && syscall(SYS_tgkill, process, process, sig) == 0)
		return;
	if (before.sa_flags & SA_SIGINFO)
		before.sa_sigaction(sig, info, context);
	else
		before.sa_handler(sig);
}

/* Before the constructor that starts Go, which looks at the handlers that are there and changes their flags. */
__attribute__((constructor(101))) static void take_interrupts(void)
{
	if (syscall(SYS_gettid) != getpid() || sigaction(SIGINT, NULL, &before) != 0)
		return;
	if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)
		return;

	struct sigaction ours = before;

	ours.sa_sigaction = on_interrupt;
	ours.sa_flags |= SA_SIGINFO;
	sigaction(SIGINT, &ours, NULL);
}

#endif
