"""Write what ml_dtypes says about every type: the golden file of the tests.

    python golden.py > ml_dtypes.txt     the table
    python golden.py --live < inputs     encode float32 patterns read from stdin, all decodings

Lines: "# ml_dtypes VERSION numpy VERSION", "decode TYPE HEX" with the float32
pattern of each code (8 digits each), "finfo TYPE ...", "input HEX" with float32
patterns, "encode TYPE HEX" with one code each (2 digits; 4 for bfloat16).
"""

import sys
import warnings

import ml_dtypes
import numpy as np

NAMES = (
    "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz "
    "float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn"
).split()


def codes(name):
    unsigned = np.uint16 if name == "bfloat16" else np.uint8
    bits = {"float6": 6, "float4": 4, "bfloat": 16}.get(name[:6], 8)
    return unsigned, np.arange(1 << bits, dtype=unsigned)


def hexa(a, digits):
    return "".join(f"{int(v):0{digits}x}" for v in a)


def inputs():
    """Values of the types, the middles between neighbours, their neighbours in float32, and others."""
    rng = np.random.default_rng(20261129)
    points = [np.array([0, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 1, 0x7FFFFF, 0x800000, 0x400000, 0x400001, 0x3FFFFF, 0x7F7FFFFF, 0x7F400000], np.uint32)]
    for name in NAMES[1:]:
        unsigned, all_codes = codes(name)
        v = all_codes.view(getattr(ml_dtypes, name)).astype(np.float32)
        v = np.unique(np.abs(v[np.isfinite(v)]))
        if name == "float8_e8m0fnu":
            v = v[::8]
        with np.errstate(over="ignore"):
            mid = ((v[:-1].astype(np.float64) + v[1:]) / 2).astype(np.float32)
            over = np.array([v[-1] + (v[-1] - v[-2]) / 2, v[-1] * 2], np.float32)
        for a in (v, mid, over):
            b = a.view(np.uint32)
            points += [b, b + 1, b[b > 0] - 1]
    rough = rng.integers(0, 1 << 16, 300, np.uint32) << 16  # ties of bfloat16 and beside them
    points += [rough | 0x8000, rough | 0x8001, rough | 0x7FFF, rough[:50]]
    points += [rng.integers(0, 1 << 32, 300, np.uint32)]
    points += [rng.uniform(-600, 600, 300).astype(np.float32).view(np.uint32)]
    p = np.unique(np.concatenate(points) & np.uint32(0x7FFFFFFF))
    return np.concatenate([p, p | np.uint32(0x80000000)])


def main():
    warnings.simplefilter("ignore")
    live = "--live" in sys.argv
    print(f"# ml_dtypes {ml_dtypes.__version__} numpy {np.__version__}")
    for name in NAMES:
        t = getattr(ml_dtypes, name)
        _, all_codes = codes(name)
        if name != "bfloat16" or live:
            print("decode", name, hexa(all_codes.view(t).astype(np.float32).view(np.uint32), 8))
        i = ml_dtypes.finfo(t)
        values = [i.max, i.min, i.smallest_normal, i.smallest_subnormal, i.eps]
        print("finfo", name, i.bits, i.nexp, i.nmant, hexa(np.array(values, np.float32).view(np.uint32), 8))
    if live:
        p = np.frombuffer(sys.stdin.buffer.read(), np.uint32)
    else:
        p = inputs()
        print("input", hexa(p, 8))
    for name in NAMES:
        unsigned, _ = codes(name)
        got = p.view(np.float32).astype(getattr(ml_dtypes, name)).view(unsigned)
        print("encode", name, hexa(got, 4 if unsigned is np.uint16 else 2))


if __name__ == "__main__":
    main()
