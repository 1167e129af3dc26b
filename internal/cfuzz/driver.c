/* Runs a target where the compiler has no fuzzer of its own (gcc):
 *
 *   target [-max_total_time=SECONDS] [-runs=N] [-seed=N] [corpus folder or file]...
 *
 * Each file is run once; then mutations of them until the time or the number
 * of runs is over. Both 0, the default, mean: the files only. There is no
 * guidance by coverage. When the process aborts, which sanitizers do with
 * abort_on_error=1, the last input is left in crash-input.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

enum { MOST_FILES = 4096, LONGEST = 4096 };

static struct {
	uint8_t *data;
	size_t size;
} corpus[MOST_FILES];
static size_t files;

static uint8_t now[LONGEST];
static size_t now_size;

static void keep(void)
{
	FILE *f = fopen("crash-input", "wb");

	if (f == NULL)
		return;
	fwrite(now, 1, now_size, f);
	fclose(f);
	fprintf(stderr, "the input is in crash-input\n");
}

static void on_signal(int sig)
{
	keep();
	signal(sig, SIG_DFL);
	raise(sig);
}

static uint64_t state = 88172645463325252ULL;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void add_file(const char *path)
{
	FILE *f = fopen(path, "rb");

	if (f == NULL || files == MOST_FILES) {
		fprintf(stderr, "%s: %s\n", path, f == NULL ? "cannot be read" : "too many files");
		exit(2);
	}
	uint8_t *p = malloc(LONGEST);
	REQUIRE(p != NULL);
	corpus[files].size = fread(p, 1, LONGEST, f);
	corpus[files++].data = p;
	fclose(f);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void add(const char *path)
{
	struct stat st;
	struct dirent **list;
	char full[4096];

	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
		add_file(path);
		return;
	}
	int n = scandir(path, &list, NULL, by_name);
	for (int i = 0; i < n; i++) {
		if (list[i]->d_name[0] != '.') {
			snprintf(full, sizeof full, "%s/%s", path, list[i]->d_name);
			add_file(full);
		}
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

/* A file, changed in a few places. */
static void mutate(void)
{
	size_t from = files != 0 ? draw() % files : 0;

	now_size = files != 0 ? corpus[from].size : 0;
	if (now_size != 0)
		memcpy(now, corpus[from].data, now_size);
	for (uint64_t changes = 1 + draw() % 6; changes > 0; changes--) {
		size_t at = now_size != 0 ? draw() % now_size : 0;
		switch (draw() % 6) {
		case 0: /* a byte */
		case 1:
			if (now_size != 0)
				now[at] = (uint8_t)draw();
			break;
		case 2: /* a bit */
			if (now_size != 0)
				now[at] ^= (uint8_t)(1 << draw() % 8);
			break;
		case 3: /* a byte more */
			if (now_size + 1 < LONGEST) {
				memmove(now + at + 1, now + at, now_size - at);
				now[at] = (uint8_t)draw();
				now_size++;
			}
			break;
		case 4: /* a byte less */
			if (now_size > 1) {
				memmove(now + at, now + at + 1, now_size - at - 1);
				now_size--;
			}
			break;
		default: /* another file's end */
			if (files > 1) {
				size_t other = draw() % files, cut = corpus[other].size != 0 ? draw() % corpus[other].size : 0;
				size_t more = corpus[other].size - cut;
				if (more > LONGEST - at)
					more = LONGEST - at;
				memcpy(now + at, corpus[other].data + cut, more);
				now_size = at + more;
			}
		}
	}
}

static void run(void)
{
	/* Its own block, so that reading past the end is seen. */
	uint8_t *copy = malloc(now_size + (now_size == 0));

	REQUIRE(copy != NULL);
	memcpy(copy, now, now_size);
	LLVMFuzzerTestOneInput(copy, now_size);
	free(copy);
}

int main(int argc, char **argv)
{
	double seconds = 0;
	long most = 0, runs = 0;
	struct timespec t;

	LLVMFuzzerInitialize(&argc, &argv);
	for (int i = 1; i < argc; i++) {
		if (sscanf(argv[i], "-max_total_time=%lf", &seconds) == 1 || sscanf(argv[i], "-runs=%ld", &most) == 1)
			continue;
		unsigned long seed;
		if (sscanf(argv[i], "-seed=%lu", &seed) == 1)
			state = state * 31 + seed;
		else if (argv[i][0] != '-')
			add(argv[i]);
	}
	signal(SIGABRT, on_signal);
	for (size_t i = 0; i < files; i++, runs++) {
		memcpy(now, corpus[i].data, now_size = corpus[i].size);
		run();
	}
	clock_gettime(CLOCK_MONOTONIC, &t);
	double end = (double)t.tv_sec + (double)t.tv_nsec / 1e9 + seconds;
	while (seconds > 0 || most > 0) {
		mutate();
		run();
		runs++;
		if (most > 0 && runs >= most)
			break;
		clock_gettime(CLOCK_MONOTONIC, &t);
		if (seconds > 0 && (double)t.tv_sec + (double)t.tv_nsec / 1e9 >= end)
			break;
	}
	printf("Done %ld runs, %zu of them files\n", runs, files);
	return 0;
}
