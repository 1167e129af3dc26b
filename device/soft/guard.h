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
/* name: target with a zero argument number index made 2. */
#define HO_SOFT_PTSZ_REG(name, target, index) \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" \
		"\ttestq %" HO_SOFT_REG_##index ", %" HO_SOFT_REG_##index "\n\tjne 1f\n" \
		"\tmovl $2, %" HO_SOFT_LOW_##index "\n1:\tjmp " #target "@PLT\n.size " #name ", .-" #name "\n");
#define HO_SOFT_REG_0 "rdi"
#define HO_SOFT_REG_1 "rsi"
#define HO_SOFT_REG_2 "rdx"
#define HO_SOFT_REG_3 "rcx"
#define HO_SOFT_REG_4 "r8"
#define HO_SOFT_REG_5 "r9"
#define HO_SOFT_LOW_0 "edi"
#define HO_SOFT_LOW_1 "esi"
#define HO_SOFT_LOW_2 "edx"
#define HO_SOFT_LOW_3 "ecx"
#define HO_SOFT_LOW_4 "r8d"
#define HO_SOFT_LOW_5 "r9d"
/* The same for argument number 8, the third on the stack. */
#define HO_SOFT_PTSZ_ON_STACK(name, target) \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" \
		"\tcmpq $0, 24(%rsp)\n\tjne 1f\n\tmovq $2, 24(%rsp)\n" \
		"1:\tjmp " #target "@PLT\n.size " #name ", .-" #name "\n");
#elif defined(__aarch64__) && defined(__ELF__)
#define HO_SOFT_GUARDED 1
#define HO_SOFT_GUARD(name, target) \
	__asm__(".text\n.globl " #name "\n.type " #name ",%function\n" #name ":\n" \
		"\tadrp x16, :got:ho_soft_forked\n\tldr x16, [x16, :got_lo12:ho_soft_forked]\n" \
		"\tldr w16, [x16]\n\tcbnz w16, 1f\n\tb " #target "\n" \
		"1:\tmov w0, #3\n\tret\n.size " #name ", .-" #name "\n");
#define HO_SOFT_PTSZ_REG(name, target, index) \
	__asm__(".text\n.globl " #name "\n.type " #name ",%function\n" #name ":\n" \
		"\tcbnz x" #index ", 1f\n\tmov x" #index ", #2\n1:\tb " #target "\n.size " #name ", .-" #name "\n");
#define HO_SOFT_PTSZ_ON_STACK(name, target) \
	__asm__(".text\n.globl " #name "\n.type " #name ",%function\n" #name ":\n" \
		"\tldr x16, [sp]\n\tcbnz x16, 1f\n\tmov x16, #2\n\tstr x16, [sp]\n" \
		"1:\tb " #target "\n.size " #name ", .-" #name "\n");
#endif

#ifdef HO_SOFT_GUARDED
#define HO_SOFT_DECLARE(name, symbol, version, ret, params) ret ho_soft_guard_##name params;
HO_CUDA_ENTRIES(HO_SOFT_DECLARE)
#undef HO_SOFT_DECLARE
#endif
