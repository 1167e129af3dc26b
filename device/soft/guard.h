/* Each entry point once more, as ho_soft_guard_NAME, which looks at
 * ho_soft_forked before it goes on to the Go function: in a forked child Go
 * must not be entered, and the answer is NOT_INITIALIZED, as the driver's is.
 * A jump passes any arguments on, so this is the one place with assembly. */
#pragma once

#if defined(__x86_64__) && defined(__ELF__)
#define HO_SOFT_GUARDED 1
#define HO_SOFT_GUARD(name, target) \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" \
		"\tmovq ho_soft_forked@GOTPCREL(%rip), %rax\n" \
		"\tcmpl $0, (%rax)\n\tjne 1f\n\tjmp " #target "@PLT\n" \
		"1:\tmovl $3, %eax\n\tret\n.size " #name ", .-" #name "\n");
#elif defined(__aarch64__) && defined(__ELF__)
#define HO_SOFT_GUARDED 1
#define HO_SOFT_GUARD(name, target) \
	__asm__(".text\n.globl " #name "\n.type " #name ",%function\n" #name ":\n" \
		"\tadrp x16, :got:ho_soft_forked\n\tldr x16, [x16, :got_lo12:ho_soft_forked]\n" \
		"\tldr w16, [x16]\n\tcbnz w16, 1f\n\tb " #target "\n" \
		"1:\tmov w0, #3\n\tret\n.size " #name ", .-" #name "\n");
#endif

#ifdef HO_SOFT_GUARDED
#define HO_SOFT_DECLARE(name, symbol, version, ret, params) ret ho_soft_guard_##name params;
HO_CUDA_ENTRIES(HO_SOFT_DECLARE)
#undef HO_SOFT_DECLARE
#endif
