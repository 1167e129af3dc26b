/* C functions that the driver calls and that enter Go. */
#include "driver.h"

#include "_cgo_export.h"

static void once(ho_word user)
{
	hoDriverHostFunc(user, 1);
}

static void many(ho_word user)
{
	hoDriverHostFunc(user, 0);
}

ho_word ho_host_once(void)
{
	return (ho_word)once;
}

ho_word ho_host_many(void)
{
	return (ho_word)many;
}

void ho_host_run(ho_word fn, ho_word user)
{
	((ho_host_fn)fn)(user);
}
