#pragma once

#include <stddef.h>
#include <stdint.h>

/* The protocol between an application and a tool that wants its annotations,
 * version 3: NVTX_INJECTION64_PATH names the tool's library, which exports
 * InitializeInjectionNvtx2 and is given a way to replace the functions of an
 * application's tables. An application without a tool has empty tables.
 * https://nvidia.github.io/NVTX/ */

/* nvtxEventAttributes_t, version 3. */
typedef struct ho_nvtx_attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const char *message;
} ho_nvtx_attributes;

/* Opens the library of a tool and offers it the tables. Returns 0, or -1 with what
 * was wrong in why. Called once; the library stays open. */
int ho_nvtx_attach(const char *path, char *why, size_t room);
/* Whether a tool listens. */
int ho_nvtx_enabled(void);

/* A domain of a name; 0 without a tool. Kept for ever. */
uintptr_t ho_nvtx_domain(const char *name);

/* All of them do nothing without a tool. domain may be 0, for the default. message
 * ends with a zero byte; payload_type is 0 without a payload. */
void ho_nvtx_mark(uintptr_t domain, const char *message, uint32_t argb, uint32_t category, int payload_type, uint64_t payload);
uint64_t ho_nvtx_start(uintptr_t domain, const char *message, uint32_t argb, uint32_t category, int payload_type, uint64_t payload);
void ho_nvtx_end(uintptr_t domain, uint64_t id);
int ho_nvtx_push(uintptr_t domain, const char *message, uint32_t argb, uint32_t category, int payload_type, uint64_t payload);
int ho_nvtx_pop(uintptr_t domain);
void ho_nvtx_category(uintptr_t domain, uint32_t category, const char *name);
