package reasoncodes

import (
	"encoding/json"
	"errors"
	"math/rand"
	"os"
	"strings"
	"testing"
)

type formatted struct {
	Code   Code
	Detail string
}

type specCase struct {
	Note         string
	Format       *formatted
	Parse        *string
	Verdict      *Verdict
	Codes        []Code
	Constraints  []string
	Missing      []string
	AttemptsLeft *bool `json:"attempts_left"`
	Rules        json.RawMessage
	Memory       json.RawMessage
	Decision     json.RawMessage
	Error        string
	Want         json.RawMessage
}

var errorsOfCases = map[string]error{"unknown_code": ErrUnknownCode, "inconsistent": ErrInconsistent}

func TestCasesOfTheSpecification(t *testing.T) {
	text, err := os.ReadFile("../../../spec/generated/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	files := want[map[string]json.RawMessage](t, text)
	var cases []specCase
	for _, name := range []string{"format", "parse", "classify", "seed"} {
		cases = append(cases, want[[]specCase](t, files[name])...)
	}
	counts := map[string]int{}
	for _, one := range cases {
		kind, check := "", func(*testing.T) error { return nil }
		switch {
		case one.Rules != nil || one.Memory != nil || one.Decision != nil:
			continue
		case one.Format != nil:
			kind, check = "format", one.checkFormat
		case one.Parse != nil:
			kind, check = "parse", one.checkParse
		case one.Verdict != nil:
			kind, check = "classify", one.checkClassify
		default:
			continue
		}
		counts[kind]++
		t.Run(one.Note, func(t *testing.T) {
			if err := check(t); !errors.Is(err, errorsOfCases[one.Error]) {
				t.Errorf("error %v, want %q", err, one.Error)
			}
		})
	}
	t.Logf("cases: %v", counts)
	if counts["format"] < 16 || counts["parse"] < 45 || counts["classify"] < 33 {
		t.Errorf("too few cases: %v", counts)
	}
}

func want[T any](t *testing.T, row json.RawMessage) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(row, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func (one specCase) checkFormat(t *testing.T) error {
	line, err := Format(one.Format.Code, one.Format.Detail)
	if err == nil && line != want[string](t, one.Want) {
		t.Errorf("line %q, want %s", line, one.Want)
	}
	return err
}

func (one specCase) checkParse(t *testing.T) error {
	refusal, found := Parse(*one.Parse)
	wanted := want[*formatted](t, one.Want)
	if found != (wanted != nil) || found && refusal != Refusal(*wanted) {
		t.Errorf("%v %q, want %s", found, refusal, one.Want)
	}
	return nil
}

func (one specCase) checkClassify(t *testing.T) error {
	left := one.AttemptsLeft == nil || *one.AttemptsLeft
	got, err := Classify(*one.Verdict, one.Codes, one.Constraints, one.Missing, left)
	if err != nil {
		return err
	}
	wanted := want[struct {
		Class  Class  `json:"refusal_class"`
		Output Output `json:"decision_output"`
	}](t, one.Want)
	if got != Classification(wanted) {
		t.Errorf("%v, want %s", got, one.Want)
	}
	return nil
}

// Characters and bytes that escapes, line breaks and markers are about.
var alphabet = []string{
	`\`, `\`, `\`, "u", "0", "0", "1", "7", "f", "d", "8", "2", "9", "\n", "\r", "\x00", "\x7f", "\u0085",
	"\u2028", "\xed\xa0\x80", "\xed\xbf\xbf", "\xff", "\xed", `\u000a`, `\ud83d`, `\u2029`, "ü", "🗑", ":", " ",
	"REFUSED: ", "RCE_RISK",
}

func TestReadingWhatWasWrittenGivesBoth(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range [20000]struct{}{} {
		var detail strings.Builder
		for length := random.Intn(12); length > 0; length-- {
			detail.WriteString(alphabet[random.Intn(len(alphabet))])
		}
		code := all[random.Intn(len(all))].Code
		line, err := Format(code, detail.String())
		refusal, found := Parse(line)
		if err != nil || !found || refusal != (Refusal{code, detail.String()}) {
			t.Fatalf("%q gives %q, which reads as %q (%v)", detail.String(), line, refusal, err)
		}
		if strings.ContainsAny(line, "\n\r\x00\x7f\u0085\u2028\u2029") {
			t.Fatalf("%q is not one line", line)
		}
	}
}

func TestLoneSurrogatesAreEscaped(t *testing.T) {
	line, _ := Format(RceRisk, "a\xed\xa0\x80\xff")
	if line != "REFUSED: RCE_RISK: a\\ud800\xff" {
		t.Errorf("%q", line)
	}
}

func TestEveryPhraseIsReadInCapitals(t *testing.T) {
	for _, phrase := range phrases {
		text := "x " + strings.ToUpper(phrase.text)
		if refusal, found := Parse(text); !found || refusal.Detail != text {
			t.Errorf("%q reads as %q", text, refusal)
		}
	}
}

func TestAddingACodeNeverWeakensTheClass(t *testing.T) {
	for _, first := range All() {
		for _, second := range All() {
			codes := []Code{first.Code, second.Code}
			both, err := Classify(VerdictDeny, codes, nil, nil, true)
			if first.Class == "" && second.Class == "" {
				continue
			}
			strictest := strictness[first.Class]
			if other := strictness[second.Class]; other > strictest {
				strictest = other
			}
			if err != nil || strictness[both.Class] != strictest {
				t.Fatalf("%v: %v %v", codes, both, err)
			}
		}
	}
}

func TestInvalidInputIsAnError(t *testing.T) {
	if _, err := Classify("MAYBE", []Code{RceRisk}, nil, nil, true); !errors.Is(err, ErrInvalid) {
		t.Errorf("an unknown verdict: %v", err)
	}
	if _, err := Classify(VerdictDeny, []Code{RceRisk}, []string{" "}, nil, true); !errors.Is(err, ErrInvalid) {
		t.Errorf("an empty constraint: %v", err)
	}
}
