package ext

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// signature is a parsed Python signature such as
// "scale(x, factor=2.0, *, offset=None)".
type signature struct {
	name   string
	params []sigParam
}

// sigParam is one parameter as the signature spells it.
type sigParam struct {
	name       string
	hasDefault bool
	def        literal
	positional bool // before "/": cannot be given by name
	keyword    bool // after "*": can only be given by name
	variadic   bool // "*name"
}

// literal is a default value.
type literal struct {
	kind litKind
	i    int64
	f    float64
	s    string // text of a string; source of a number
}

type litKind uint8

const (
	litNone litKind = iota
	litBool
	litInt
	litFloat
	litString
)

// python spells the literal as Python source.
func (l literal) python() string {
	switch l.kind {
	case litBool:
		if l.i != 0 {
			return "True"
		}
		return "False"
	case litInt, litFloat:
		return l.s
	case litString:
		return pyQuote(l.s)
	default:
		return "None"
	}
}

// sigScanner walks over the text of a signature.
type sigScanner struct {
	text string
	pos  int
}

func (s *sigScanner) space() {
	for s.pos < len(s.text) && (s.text[s.pos] == ' ' || s.text[s.pos] == '\t' || s.text[s.pos] == '\n') {
		s.pos++
	}
}

// take consumes c if it comes next.
func (s *sigScanner) take(c byte) bool {
	s.space()
	if s.pos < len(s.text) && s.text[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *sigScanner) fail(format string, args ...any) error {
	return fmt.Errorf("%s at position %d of %q", fmt.Sprintf(format, args...), s.pos, s.text)
}

// parseSignature reads a signature in Python's own notation, without
// annotations (the Go function gives the types).
func parseSignature(text string) (signature, error) {
	s := &sigScanner{text: text}
	var sig signature
	name, err := s.identifier()
	if err != nil {
		return sig, err
	}
	sig.name = name
	if !s.take('(') {
		return sig, s.fail("want '(' after the function's name")
	}
	p := sigState{}
	if err := p.params(s, &sig); err != nil {
		return sig, err
	}
	s.space()
	if s.pos != len(s.text) {
		return sig, s.fail("text after ')'")
	}
	return sig, nil
}

// sigState is what the parameters seen so far allow for the next one.
type sigState struct {
	keyword, slash, defaults bool
	seen                     map[string]bool
}

func (p *sigState) params(s *sigScanner, sig *signature) error {
	p.seen = map[string]bool{}
	for first := true; ; first = false {
		if s.take(')') {
			break
		}
		if !first {
			if !s.take(',') {
				return s.fail("want ',' or ')'")
			}
			if s.take(')') { // a trailing comma
				break
			}
		}
		if err := p.param(s, sig); err != nil {
			return err
		}
	}
	return nil
}

func (p *sigState) param(s *sigScanner, sig *signature) error {
	switch {
	case s.take('/'):
		if p.slash || p.keyword || len(sig.params) == 0 {
			return s.fail("misplaced '/'")
		}
		p.slash = true
		for i := range sig.params {
			sig.params[i].positional = true
		}
		return nil
	case s.take('*'):
		if p.keyword {
			return s.fail("a second '*'")
		}
		if s.take('*') {
			return s.fail("'**' parameters are not supported")
		}
		p.keyword = true
		s.space()
		if s.pos < len(s.text) && s.text[s.pos] == ',' {
			return p.afterStar(s, sig)
		}
		name, err := p.name(s)
		if err != nil {
			return err
		}
		sig.params = append(sig.params, sigParam{name: name, variadic: true})
		return nil
	}
	name, err := p.name(s)
	if err != nil {
		return err
	}
	q := sigParam{name: name, keyword: p.keyword}
	if s.take('=') {
		q.hasDefault = true
		if q.def, err = s.literal(); err != nil {
			return err
		}
		p.defaults = p.defaults || !p.keyword
	} else if p.defaults && !p.keyword {
		return s.fail("parameter %q without a default follows one with a default", name)
	}
	sig.params = append(sig.params, q)
	return nil
}

// afterStar reads the parameter that must follow a bare "*".
func (p *sigState) afterStar(s *sigScanner, sig *signature) error {
	s.take(',')
	s.space()
	if s.pos >= len(s.text) || s.text[s.pos] == ')' || s.text[s.pos] == '*' || s.text[s.pos] == '/' {
		return s.fail("a parameter must follow '*'")
	}
	return p.param(s, sig)
}

func (p *sigState) name(s *sigScanner) (string, error) {
	name, err := s.identifier()
	if err != nil {
		return "", err
	}
	if p.seen[name] {
		return "", s.fail("parameter %q is named twice", name)
	}
	p.seen[name] = true
	return name, nil
}

// identifier reads an ASCII name that is not a Python keyword.
func (s *sigScanner) identifier() (string, error) {
	s.space()
	start := s.pos
	for s.pos < len(s.text) && nameByte(s.text[s.pos], s.pos > start) {
		s.pos++
	}
	name := s.text[start:s.pos]
	if name == "" {
		return "", s.fail("want a name")
	}
	if pyKeywords[name] {
		return "", s.fail("%q is a keyword of Python", name)
	}
	return name, nil
}

func nameByte(c byte, digits bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digits && c >= '0' && c <= '9'
}

// isName reports whether s can name a Python function, parameter or field.
func isName(s string) bool {
	for i := range len(s) {
		if !nameByte(s[i], i > 0) {
			return false
		}
	}
	return s != "" && !pyKeywords[s]
}

// literal reads a default value: None, True, False, a number or a string.
func (s *sigScanner) literal() (literal, error) {
	s.space()
	if s.pos < len(s.text) && (s.text[s.pos] == '\'' || s.text[s.pos] == '"') {
		return s.quoted()
	}
	start := s.pos
	for s.pos < len(s.text) && !strings.ContainsRune(",) \t\n", rune(s.text[s.pos])) {
		s.pos++
	}
	word := s.text[start:s.pos]
	switch word {
	case "":
		return literal{}, s.fail("want a default value")
	case "None":
		return literal{kind: litNone}, nil
	case "True":
		return literal{kind: litBool, i: 1}, nil
	case "False":
		return literal{kind: litBool}, nil
	}
	if i, err := strconv.ParseInt(word, 10, 64); err == nil {
		return literal{kind: litInt, i: i, f: float64(i), s: strconv.FormatInt(i, 10)}, nil
	} else if errors.Is(err, strconv.ErrRange) {
		return literal{}, s.fail("default %s does not fit 64 bits", word)
	}
	// strconv reads more than Python does (hexadecimal, "inf"): those have no
	// literal in Python and would break the signature that help() shows.
	if strings.Trim(word, "+-.0123456789eE") == "" {
		if f, err := strconv.ParseFloat(word, 64); err == nil {
			return literal{kind: litFloat, f: f, s: word}, nil
		}
	}
	return literal{}, s.fail("default %q is not None, True, False, a number or a string", word)
}

// quoted reads a Python string with the escapes \\ \' \" \n \t.
func (s *sigScanner) quoted() (literal, error) {
	quote := s.text[s.pos]
	s.pos++
	var b strings.Builder
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		s.pos++
		switch {
		case c == quote:
			if !utf8.ValidString(b.String()) || strings.ContainsRune(b.String(), 0) {
				return literal{}, s.fail("the string is not UTF-8 or holds a NUL")
			}
			return literal{kind: litString, s: b.String()}, nil
		case c == '\\' && s.pos < len(s.text):
			e := s.text[s.pos]
			s.pos++
			i := strings.IndexByte(`\'"nt`, e)
			if i < 0 {
				return literal{}, s.fail("unknown escape \\%c", e)
			}
			b.WriteByte("\\'\"\n\t"[i])
		default:
			b.WriteByte(c)
		}
	}
	return literal{}, s.fail("the string does not end")
}

// pyQuote spells s as a Python string literal.
func pyQuote(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range s {
		switch {
		case r == '\\' || r == '\'':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// text spells the parameters as inspect.signature wants them.
func (s signature) text() string {
	return s.render(func(p sigParam) string { return p.name }, func(p sigParam) string { return "=" + p.def.python() })
}

// render writes "(…)" with the "/" and "*" markers in place; name and def
// spell a parameter and its default.
func (s signature) render(name, def func(sigParam) string) string {
	var b strings.Builder
	b.WriteByte('(')
	star := false
	for i, p := range s.params {
		if i > 0 {
			b.WriteString(", ")
		}
		switch {
		case p.variadic:
			b.WriteByte('*')
			star = true
		case p.keyword && !star:
			b.WriteString("*, ")
			star = true
		}
		b.WriteString(name(p))
		if p.hasDefault {
			b.WriteString(def(p))
		}
		if p.positional && (i+1 == len(s.params) || !s.params[i+1].positional) {
			b.WriteString(", /")
		}
	}
	b.WriteByte(')')
	return b.String()
}

var pyKeywords = func() map[string]bool {
	m := map[string]bool{}
	for _, k := range strings.Fields(`False None True and as assert async await break class continue def del elif
		else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`) {
		m[k] = true
	}
	return m
}()
