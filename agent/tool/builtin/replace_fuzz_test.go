package builtin

import (
	"bytes"
	"strings"
	"testing"
)

// What an edit does not name stays as it is, byte for byte; and one that is undone leaves nothing behind.
func FuzzAnEditChangesNothingElse(f *testing.F) {
	f.Add("one\r\ntwo\nthree", "two\nth", "x\ny", false)
	f.Add("aaaa", "aa", "a", true)
	f.Add("a\r\n\r\nb", "\n", "\r\n\n", true)
	f.Add("\r\r\n\n", "\r\n", "", true)
	f.Fuzz(func(t *testing.T, text, old, with string, all bool) {
		out, put, err := edit{old, with, all}.apply(text)
		if err != nil {
			if closest(text, old) == "" {
				t.Error("an error without what to do")
			}
			return
		}
		found := edit{old, with, all}.find(text)
		if len(found) != len(put) || len(put) != 1 && !all {
			t.Fatalf("found %v, put %v", found, put)
		}
		before, after := 0, 0
		plain := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
		for i := range found {
			if text[before:found[i].from] != out[after:put[i].from] {
				t.Fatalf("before occurrence %d: %q became %q", i, text[before:found[i].from], out[after:put[i].from])
			}
			if got := text[found[i].from:found[i].to]; got != old && plain(got) != plain(old) {
				t.Fatalf("replaced %q, which is not %q", got, old)
			}
			if got := out[put[i].from:put[i].to]; got != with && got != plain(with) &&
				got != strings.ReplaceAll(plain(with), "\n", "\r\n") {
				t.Fatalf("put %q in, not %q", got, with)
			}
			before, after = found[i].to, put[i].to
		}
		if text[before:] != out[after:] {
			t.Fatalf("at the end %q became %q", text[before:], out[after:])
		}
	})
}

func FuzzSeveralEditsAreOneAfterTheOther(f *testing.F) {
	f.Add("a\r\nb\nc", "a", "b", "b\n", "c", true)
	f.Fuzz(func(t *testing.T, text, old1, new1, old2, new2 string, all bool) {
		edits := []edit{{old1, new1, all}, {old2, new2, all}}
		together, _, errTogether := applyAll(text, formUTF8, edits)
		each, _, err := edits[0].apply(text)
		if err == nil {
			each, _, err = edits[1].apply(each)
		}
		if (err == nil) != (errTogether == nil) || err == nil && together != each {
			t.Errorf("together %q, %v; each %q, %v", together, errTogether, each, err)
		}
	})
}

func FuzzATextFileComesBackAsItWas(f *testing.F) {
	f.Add([]byte("\xff\xfea\x00"))
	f.Add([]byte("\xfe\xff\xd8\x00\xdc\x00"))
	f.Add([]byte("\xef\xbb\xbfx"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		text, form, err := toText(raw)
		if err == nil && !bytes.Equal(toBytes(text, form), raw) {
			t.Errorf("%q came back as %q", raw, toBytes(text, form))
		}
	})
}
