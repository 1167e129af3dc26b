/* What the fuzz targets in C share: reading an input as numbers, and failing.
 * An input that is used up reads as zeros, so every input means something. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The entry points that libFuzzer, AFL++ and driver.c call. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Ends the process with a message, so that the input is kept. */
#define REQUIRE(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

typedef struct input {
	const uint8_t *p;
	size_t n;
} input;

static inline uint8_t in_byte(input *in)
{
	if (in->n == 0)
		return 0;
	in->n--;
	return *in->p++;
}

/* A number below n. */
static inline unsigned in_below(input *in, unsigned n)
{
	return in_byte(in) % n;
}

static inline uint64_t in_word(input *in)
{
	uint64_t w = 0;

	for (int i = 0; i < 8; i++)
		w |= (uint64_t)in_byte(in) << (8 * i);
	return w;
}

/* A number: mostly a small one, else one on an edge, near an edge, or any. */
static inline int64_t in_number(input *in)
{
	static const int64_t edges[] = {
		0, 1, 2, 3, 4, 8, 16, -1, -2, -8, 127, 128, 255, 256, 65535, 65536, 4095, 4096, 1LL << 31,
		(1LL << 31) - 1, 1LL << 32, 1LL << 56, 1LL << 60, 1LL << 61, 1LL << 62, -(1LL << 62), INT64_MAX,
		INT64_MAX - 1, INT64_MIN, INT64_MIN + 1, 1LL << 47, -(1LL << 31),
	};
	uint8_t c = in_byte(in);

	switch (c % 8) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
		return c / 8 < 24 ? c / 8 : 16 - c / 8;
	case 5:
		return edges[c / 8];
	case 6:
		return (int64_t)((uint64_t)edges[c / 8] + (uint64_t)(int64_t)(int8_t)in_byte(in));
	}
	return (int64_t)in_word(in);
}

/* A text of at most room-1 bytes, none of them NUL; buf gets it. */
static inline size_t in_text(input *in, char *buf, size_t room)
{
	size_t n = in_byte(in) % room, i = 0;

	while (i < n && in->n > 0) {
		char c = (char)in_byte(in);
		if (c == '\0')
			break;
		buf[i++] = c;
	}
	buf[i] = '\0';
	return i;
}
