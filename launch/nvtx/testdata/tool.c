/* A profiler for tests: it writes down what it is told, one call a line, on
 * standard output. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	union {
		uint64_t u;
		int64_t i;
		double d;
	} payload;
	int32_t message_type;
	const char *message;
};

typedef void (*fn)(void);
struct callbacks {
	size_t size;
	int (*table)(int, fn ***, unsigned *);
};
struct versions {
	size_t size;
	uint32_t version, reserved;
	void (*set)(uint32_t);
};

static uint64_t next;
static int depth;

static void say(const char *what, const void *domain, const struct attributes *a)
{
	printf("%s %s v%d/%d %d:%d color %d:%08x category %u payload %d:", what, domain ? (const char *)domain : "-", a->version, a->size,
	       a->message_type, a->reserved, a->color_type, a->color, a->category, a->payload_type);
	switch (a->payload_type) {
	case 1:
		printf("%llu", (unsigned long long)a->payload.u);
		break;
	case 2:
		printf("%lld", (long long)a->payload.i);
		break;
	case 3:
		printf("%g", a->payload.d);
	}
	printf(" %s\n", a->message);
}

static void mark(const struct attributes *a) { say("mark", NULL, a); }
static uint64_t start(const struct attributes *a) { say("start", NULL, a); return ++next; }
static void end(uint64_t id) { printf("end - %llu\n", (unsigned long long)id); }
static int push(const struct attributes *a) { say("push", NULL, a); return depth++; }
static int pop(void) { printf("pop -\n"); return --depth; }
static void category(uint32_t c, const char *n) { printf("category - %u %s\n", c, n); }
static void dmark(const char *d, const struct attributes *a) { say("mark", d, a); }
static uint64_t dstart(const char *d, const struct attributes *a) { say("start", d, a); return ++next; }
static void dend(const char *d, uint64_t id) { printf("end %s %llu\n", d, (unsigned long long)id); }
static int dpush(const char *d, const struct attributes *a) { say("push", d, a); return depth++; }
static int dpop(const char *d) { printf("pop %s\n", d); return --depth; }
static void dcategory(const char *d, uint32_t c, const char *n) { printf("category %s %u %s\n", d, c, n); }
static const char *dcreate(const char *n)
{
	static char names[8][64];
	static int made;
	char *d = names[made++ % 8];

	snprintf(d, sizeof names[0], "<%s>", n);
	return d;
}

int InitializeInjectionNvtx2(const void *(*get)(uint32_t))
{
	const struct callbacks *c = get(1);
	const struct versions *v = get(3);
	fn **t;
	unsigned n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getenv("TOOL_REFUSES") != NULL)
		return 0;
	if (c == NULL || c->size != sizeof *c || v == NULL || v->size != sizeof *v || v->version != 3 || get(2) != NULL || get(99) != NULL)
		return 0;
	v->set(3);
	if (c->table(2, &t, &n) || c->table(99, &t, &n) || !c->table(1, &t, &n) || n != 16 || t[0] != NULL || t[16] != NULL)
		return 0;
	*t[1] = (fn)mark;
	*t[4] = (fn)start;
	*t[7] = (fn)end;
	*t[8] = (fn)push;
	*t[11] = (fn)pop;
	*t[12] = (fn)category;
	if (!c->table(5, &t, &n) || n != 16 || t[0] != NULL || t[16] != NULL)
		return 0;
	if (getenv("TOOL_PLAIN") != NULL)
		return 1;
	*t[1] = (fn)dmark;
	*t[2] = (fn)dstart;
	*t[3] = (fn)dend;
	*t[4] = (fn)dpush;
	*t[5] = (fn)dpop;
	*t[8] = (fn)dcategory;
	*t[12] = (fn)dcreate;
	return 1;
}
