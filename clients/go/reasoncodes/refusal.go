package reasoncodes

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Errors that Format and Classify wrap.
var (
	ErrUnknownCode  = errors.New("unknown reason code")
	ErrInconsistent = errors.New("verdict and codes cannot stand together")
	ErrInvalid      = errors.New("invalid input")
)

// Refusal is the code and the detail of a refusal line.
type Refusal struct {
	Code   Code
	Detail string
}

const (
	mark   = "REFUSED:"
	prefix = mark + " "
	hex    = "0123456789abcdef"
)

// Format returns the refusal line of a code; any string is a valid detail. A code that the
// registry does not know is an ErrUnknownCode: a guard must not invent codes.
func Format(code Code, detail string) (string, error) {
	if _, known := Lookup(string(code)); !known {
		return "", fmt.Errorf("%w: %.80q", ErrUnknownCode, code)
	}
	return prefix + string(code) + ": " + escape(detail), nil
}

// Parse returns the refusal in a text, and whether there is one. A canonical line is tried first.
// In a text without a marker, a legacy phrase names the code, and the whole text is the detail.
func Parse(text string) (Refusal, bool) {
	if strings.HasPrefix(text, prefix) {
		return parseLine(text)
	}
	if holdsMarker(text) {
		return Refusal{}, false
	}
	code, found := codeOfPhrase(text)
	if !found {
		return Refusal{}, false
	}
	return Refusal{code, text}, true
}

func parseLine(text string) (Refusal, bool) {
	if trimmed := strings.TrimSuffix(text, "\n"); trimmed != text {
		text = strings.TrimSuffix(trimmed, "\r")
	} else {
		text = strings.TrimSuffix(text, "\r")
	}
	if strings.ContainsAny(text, "\n\r\x0b\x0c\x1c\x1d\x1e\u0085\u2028\u2029") {
		return Refusal{}, false
	}
	name, detail, _ := strings.Cut(text[len(prefix):], ":")
	info, known := Lookup(name)
	if !known || detail != "" && detail[0] != ' ' {
		return Refusal{}, false
	}
	return Refusal{info.Code, restore(strings.TrimPrefix(detail, " "))}, true
}

// decode returns the first character of a text and its length in bytes. A lone surrogate counts as
// a character although UTF-8 has none: JSON and other languages hand them over in three bytes.
// Any other byte that is not UTF-8 is a RuneError.
func decode(text string) (rune, int) {
	letter, size := utf8.DecodeRuneInString(text)
	if letter == utf8.RuneError && size == 1 && len(text) > 2 && text[0] == 0xed &&
		text[1] >= 0xa0 && text[1] <= 0xbf && text[2]&0xc0 == 0x80 {
		return 0xd000 | rune(text[1]&0x3f)<<6 | rune(text[2]&0x3f), 3
	}
	return letter, size
}

// isUnsafe tells whether a refusal line escapes a character: controls (C0, DEL, C1), the two line
// separators and lone surrogates.
func isUnsafe(letter rune) bool {
	return letter < 0x20 || letter >= 0x7f && letter <= 0x9f ||
		letter == 0x2028 || letter == 0x2029 || letter >= 0xd800 && letter <= 0xdfff
}

// readEscape returns the character of the escape that a text, behind its backslash, begins with.
func readEscape(tail string) (rune, bool) {
	if len(tail) < 5 || tail[0] != 'u' {
		return 0, false
	}
	var letter rune
	for _, digit := range []byte(tail[1:5]) {
		value := strings.IndexByte(hex, digit)
		if value < 0 {
			return 0, false
		}
		letter = letter<<4 | rune(value)
	}
	return letter, isUnsafe(letter)
}

// escape writes unsafe characters as escapes, and doubles a run of backslashes before one of these
// or before text that looks like one.
func escape(detail string) string {
	var line strings.Builder
	for detail != "" {
		run := len(detail) - len(strings.TrimLeft(detail, `\`))
		backslashes, rest := detail[:run], detail[run:]
		letter, size := decode(rest)
		unsafe := rest != "" && isUnsafe(letter)
		if _, escaped := readEscape(rest); run > 0 && (escaped || unsafe) {
			line.WriteString(backslashes)
		}
		line.WriteString(backslashes)
		if unsafe {
			line.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				line.WriteByte(hex[letter>>shift&0xf])
			}
		} else {
			line.WriteString(rest[:size])
		}
		detail = rest[size:]
	}
	return line.String()
}

// restore undoes escape.
func restore(detail string) string {
	var text strings.Builder
	for {
		start := strings.IndexByte(detail, '\\')
		if start < 0 {
			text.WriteString(detail)
			return text.String()
		}
		rest := strings.TrimLeft(detail[start:], `\`)
		run := len(detail) - start - len(rest)
		letter, escaped := readEscape(rest)
		if escaped {
			text.WriteString(detail[:start+run/2])
			if run%2 == 1 {
				writeCharacter(&text, letter)
				rest = rest[5:]
			}
		} else {
			text.WriteString(detail[:start+run])
		}
		detail = rest
	}
}

func writeCharacter(text *strings.Builder, letter rune) {
	if letter < 0xd800 {
		text.WriteRune(letter)
		return
	}
	text.Write([]byte{0xed, 0x80 | byte(letter>>6&0x3f), 0x80 | byte(letter&0x3f)})
}

// A terminal's colour code ends in a letter, but is not part of a word.
var colour = regexp.MustCompile(`\x1b\[[0-9;]{0,17}m\z`)

const maxColour = 20

// holdsMarker tells whether a text holds `REFUSED:` at the start of a word.
func holdsMarker(text string) bool {
	for start := 0; ; {
		found := strings.Index(text[start:], mark)
		if found < 0 {
			return false
		}
		before := text[:start+found]
		letter, _ := utf8.DecodeLastRuneInString(before)
		isWord := letter == '_' || unicode.IsLetter(letter) || unicode.IsNumber(letter)
		if before == "" || !isWord || colour.MatchString(last(before, maxColour)) {
			return true
		}
		start += found + 1
	}
}

var (
	folder = strings.NewReplacer(foldings...)
	spaces = regexp.MustCompile(`[ \t]{2,}|\t`)
	// `no loop detected` and `loop detected: none` say that nothing was refused.
	denialBefore = regexp.MustCompile(`(?:\A|[^a-z0-9])(?:no|not|never|without) \z`)
	denialAfter  = regexp.MustCompile(strings.ReplaceAll(
		`\As?["']?~*[:=]~*(?:no|none|null|false|0)~*(?:\z|[,;)\]}])`, "~",
		`[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`))
)

const (
	maxDenialBefore = 12
	maxDenialAfter  = 40
)

func codeOfPhrase(text string) (Code, bool) {
	folded := spaces.ReplaceAllLiteralString(folder.Replace(text), " ")
	for _, phrase := range phrases {
		if holdsPhrase(folded, phrase.text) {
			return phrase.code, true
		}
	}
	return "", false
}

// holdsPhrase tells whether a folded text holds a phrase that it does not deny.
func holdsPhrase(folded, phrase string) bool {
	for end := 0; ; {
		start := strings.Index(folded[end:], phrase)
		if start < 0 {
			return false
		}
		start += end
		end = start + len(phrase)
		before := last(folded[:start], maxDenialBefore)
		if !denialBefore.MatchString(before) && !denialAfter.MatchString(cut(folded[end:])) {
			return true
		}
	}
}

// last returns the end of a text, of at most so many bytes.
func last(text string, count int) string {
	if len(text) <= count {
		return text
	}
	return text[len(text)-count:]
}

// cut returns the characters behind a phrase that may deny it.
func cut(text string) string {
	count := 0
	for end := range text {
		if count == maxDenialAfter {
			return text[:end]
		}
		count++
	}
	return text
}

// Classification is the class of a refusal, empty if nothing refuses, and what the caller must now
// do.
type Classification struct {
	Class  Class
	Output Output
}

var strictness = map[Class]int{ClassSoftBlock: 1, ClassWorkflowBlock: 2, ClassHardBlock: 3}

// Classify returns the class and the output of a verdict with its unresolved codes. Constraints can
// be offered, missing names what can be supplied, and attemptsLeft says whether to ask again.
func Classify(
	verdict Verdict, codes []Code, constraints, missing []string, attemptsLeft bool,
) (Classification, error) {
	var class Class
	for _, code := range codes {
		info, known := Lookup(string(code))
		if !known {
			return Classification{}, fmt.Errorf("%w: %.80q", ErrUnknownCode, code)
		}
		// INVARIANT: adding a code can never weaken the class.
		if strictness[info.Class] > strictness[class] {
			class = info.Class
		}
	}
	for _, items := range [][]string{constraints, missing} {
		for _, item := range items {
			if strings.TrimSpace(item) == "" {
				return Classification{}, fmt.Errorf("%w: a constraint or a missing thing without a name", ErrInvalid)
			}
		}
	}
	output, err := outputFor(verdict, class, len(constraints) > 0, len(missing) > 0, attemptsLeft)
	if err != nil {
		return Classification{}, err
	}
	return Classification{class, output}, nil
}

func outputFor(verdict Verdict, class Class, constraints, missing, attemptsLeft bool) (Output, error) {
	switch verdict {
	case VerdictAllow:
		if class == "" {
			return OutputAllowExecute, nil
		}
		if class == ClassSoftBlock && constraints {
			return OutputAllowConstrained, nil
		}
		return "", fmt.Errorf("%w: ALLOW cannot stand with an unresolved %s", ErrInconsistent, class)
	case VerdictDeny, VerdictEscalate, VerdictAbstain:
		if class == "" {
			return "", fmt.Errorf("%w: %s needs a code that refuses", ErrInconsistent, verdict)
		}
		canAsk := class == ClassWorkflowBlock && missing || class == ClassSoftBlock && constraints
		if canAsk && attemptsLeft {
			return OutputNeedContext, nil
		}
		return OutputRefuseWithPath, nil
	}
	return "", fmt.Errorf("%w: unknown verdict %.80q", ErrInvalid, verdict)
}
