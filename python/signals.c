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
 * nothing is changed. A handler that a program sets with signal.signal replaces it, one that asyncio.run sets, too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __linux__

static struct sigaction before; /* Python's, of SIGINT */

/* Would the process's first thread take the signal? One that blocks it would leave it pending. */
static int first_takes(int sig)
{
	static const char line[] = "\nSigBlk:";
	char text[4096];
	int f = open("/proc/self/status", O_RDONLY | O_CLOEXEC); /* the first thread's */
	ssize_t n = f < 0 ? -1 : read(f, text, sizeof text - 1);

	if (f >= 0)
		close(f);
	if (n <= 0)
		return 0;
	text[n] = 0;

	char *at = strstr(text, line);

	return at != NULL && !(strtoull(at + sizeof line - 1, NULL, 16) >> (sig - 1) & 1);
}

static void on_interrupt(int sig, siginfo_t *info, void *context)
{
	pid_t process = getpid(); /* that of a child, after fork */
	int saved = errno;
	int sent = syscall(SYS_gettid) != process && first_takes(sig) && syscall(SYS_tgkill, process, process, sig) == 0;

	errno = saved;
	if (sent)
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
