package inside

import (
	"reflect"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// fill gives each part of a value something that no other part has.
func fill(v reflect.Value, next *int) {
	*next++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.String:
		v.SetString("s" + strconv.Itoa(*next) + "\x00\n")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(-int64(*next))
	case reflect.Uint64:
		v.SetUint(^uint64(0) - uint64(*next))
	case reflect.Uint8:
		v.SetUint(uint64(*next % 256))
	default:
		panic("a job has a field of a kind that nobody writes: " + v.Kind().String())
	}
}

func TestJobIsReadAsItWasWritten(t *testing.T) {
	var full Job
	next := 0
	fill(reflect.ValueOf(&full).Elem(), &next)
	for name, j := range map[string]Job{"full": full, "empty": {}} {
		text := j.Encode()
		length := coder{bytes: text[:8]}
		n := 0
		length.int(&n)
		if n != len(text)-8 {
			t.Errorf("%s: the length is %d of %d", name, n, len(text)-8)
		}
		got, err := DecodeJob(text[8:])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(&j, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-written +read):\n%s", name, diff)
		}
		for cut := range len(text) - 8 {
			if _, err := DecodeJob(text[8 : 8+cut]); err == nil {
				t.Fatalf("%s: its first %d bytes were read as a job", name, cut)
			}
		}
		if _, err := DecodeJob(append(text[8:], 0)); err == nil {
			t.Errorf("%s: one byte more was read as a job", name)
		}
	}
}

func FuzzDecodeJob(f *testing.F) {
	f.Add((&Job{Argv: []string{"a"}, Limits: []Limit{{1, 2, 3}}}).Encode()[8:])
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, text []byte) {
		j, err := DecodeJob(text)
		if err != nil {
			return
		}
		again, err := DecodeJob(j.Encode()[8:])
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if diff := cmp.Diff(j, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-read +read again):\n%s", diff)
		}
	})
}

func TestReportIsReadAsItWasWritten(t *testing.T) {
	for _, r := range []Report{{Kind: Started}, {Kind: Ended, Status: 139}, {Kind: Ended, Status: -1}, {Kind: Failed, Text: "two\nlines \"and\" \x00\xff ü"}, {Kind: NotStarted, Text: " "}} {
		line := r.line()
		got, err := ParseReport(line)
		if err != nil || got != r {
			t.Errorf("%q was read as %+v, %v; want %+v", line, got, err, r)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add([]byte("s0 \"\"\n"))
	f.Add([]byte("e \n"))
	f.Add([]byte("\x900 \"\"\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseReport(line)
		if err != nil {
			return
		}
		if again, err := ParseReport(r.line()); err != nil || again != r {
			t.Errorf("%q is %+v, and then %+v, %v", line, r, again, err)
		}
	})
}
