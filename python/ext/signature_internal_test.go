package ext

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseSignature(t *testing.T) {
	sig, err := parseSignature(`scale(x, /, factor = 2.0, *, offset=None, name='a\'b\n', n=-3, on=True)`)
	require.NoError(t, err)
	require.Equal(t, "scale", sig.name)
	require.Equal(t, `(x, /, factor=2.0, *, offset=None, name='a\'b\n', n=-3, on=True)`, sig.text())
	require.Equal(t, "a'b\n", sig.params[3].def.s)
	require.True(t, sig.params[0].positional)
	require.False(t, sig.params[1].keyword)
	require.True(t, sig.params[2].keyword)
}

func TestSignatureTexts(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"f()", "()"},
		{" f ( ) ", "()"},
		{"f(a,b,)", "(a, b)"},
		{"f(a, /)", "(a, /)"},
		{"f(*xs)", "(*xs)"},
		{"f(a, *xs, b=1)", "(a, *xs, b=1)"},
		{"f(*, a)", "(*, a)"},
		{"f(a, /, b, *, c)", "(a, /, b, *, c)"},
		{`f(s="q\"\\")`, `(s='q"\\')`},
		{"f(x=1e-3)", "(x=1e-3)"},
		{"f(x=\n  1)", "(x=1)"},
		{"f(é='ü')", ""},
		{"f(s='ü')", "(s='ü')"},
	} {
		sig, err := parseSignature(c.in)
		if c.out == "" {
			require.Error(t, err, c.in)
			continue
		}
		require.NoError(t, err, c.in)
		require.Equal(t, c.out, sig.text(), c.in)
	}
}

func TestSignatureErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "want a name"},
		{"f", "want '('"},
		{"f(", "want a name"},
		{"f(a", "want ',' or ')'"},
		{"f(a) -> int", "text after ')'"},
		{"f(a: int)", "want ',' or ')'"},
		{"f(a, a)", "named twice"},
		{"f(class)", "keyword of Python"},
		{"def(a)", "keyword of Python"},
		{"f(*)", "want a name"},
		{"f(*, )", "must follow '*'"},
		{"f(*, *a)", "must follow '*'"},
		{"f(*a, *b)", "a second '*'"},
		{"f(**kw)", "not supported"},
		{"f(/)", "misplaced '/'"},
		{"f(a, /, b, /)", "misplaced '/'"},
		{"f(*, a, /)", "misplaced '/'"},
		{"f(a=1, b)", "without a default"},
		{"f(a=)", "want a default value"},
		{"f(a=inf)", "not None"},
		{"f(a=0x10)", "not None"},
		{"f(a=[1])", "not None"},
		{"f(a=99999999999999999999)", "64 bits"},
		{"f(a='x)", "does not end"},
		{`f(a='\z')`, "unknown escape"},
		{"f(a='\x00')", "NUL"},
	} {
		_, err := parseSignature(c.in)
		require.ErrorContains(t, err, c.want, c.in)
	}
}

// What a signature prints is a signature with the same meaning.
func TestSignatureRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`f\((a(=(1|2.5|None|True|'[a-z\\n"]*'))?)?(, \*, b=-1)?\)`).Draw(t, "signature")
		sig, err := parseSignature(s)
		if err != nil {
			return
		}
		again, err := parseSignature("f" + sig.text())
		require.NoError(t, err)
		require.Equal(t, sig, again)
	})
}

func FuzzParseSignature(f *testing.F) {
	for _, s := range []string{"f()", "scale(x, factor=2.0, *, offset=None)", `f(a, /, *b, c='\'')`, "f(a=-1e5,)", "f(*,a)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sig, err := parseSignature(s)
		if err != nil {
			return
		}
		again, err := parseSignature(sig.name + sig.text())
		if err != nil {
			t.Fatalf("%q printed as %q: %v", s, sig.text(), err)
		}
		if again.text() != sig.text() {
			t.Fatalf("%q printed as %q, then as %q", s, sig.text(), again.text())
		}
	})
}

func TestSnake(t *testing.T) {
	for in, want := range map[string]string{"Mean": "mean", "MeanValue": "mean_value", "ID": "id", "MaxID": "max_id", "IDOf": "id_of", "X2": "x2"} {
		require.Equal(t, want, snake(in))
	}
}

func TestTrimStack(t *testing.T) {
	in := "goroutine 1 [running]:\nruntime/debug.Stack()\n\t/a.go:1\npanic({0x1, 0x2})\n\t/panic.go:9\nmain.f()\n\t/b.go:2\n"
	require.Equal(t, "goroutine 1 [running]:\nmain.f()\n\t/b.go:2\n", trimStack([]byte(in)))
	require.Equal(t, "nothing to cut", trimStack([]byte("nothing to cut")))
}
