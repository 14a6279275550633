package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"symbio/internal/agent/llm/sse"
)

type event struct{ Name, Data string }

func all(t *testing.T, in io.Reader, limit int) ([]event, error) {
	t.Helper()
	var got []event
	r := sse.NewReader(in, limit)
	for {
		e, err := r.Next()
		if err != nil {
			return got, err
		}
		got = append(got, event{e.Name, string(e.Data)})
	}
}

func TestReaderReadsWhatServersSend(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, c := range []struct {
		name, in string
		want     []event
	}{
		{"nothing", "", nil},
		{"one", "data: a\n\n", []event{{"", "a"}}},
		{"two", "data: a\n\ndata: b\n\n", []event{{"", "a"}, {"", "b"}}},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []event{{"", "a"}, {"", "b"}}},
		{"cr", "data: a\r\rdata: b\r\r", []event{{"", "a"}, {"", "b"}}},
		{"no space", "data:a\n\ndata:  b\n\n", []event{{"", "a"}, {"", " b"}}},
		{"comments", ": hi\n\n: there\ndata: a\n: mid\n\n:\n\n", []event{{"", "a"}}},
		{"joined", "data: a\ndata: b\ndata\n\n", []event{{"", "a\nb\n"}}},
		{"named", "event: error\ndata: a\n\ndata: b\n\n", []event{{"error", "a"}, {"", "b"}}},
		{"name without data", "event: ping\n\ndata: b\n\n", []event{{"", "b"}}},
		{"other fields", "id: 1\nretry: 5\nwhat: x\ndata: a\n\n", []event{{"", "a"}}},
		{"no last blank line", "data: a\n\ndata: b\n", []event{{"", "a"}, {"", "b"}}},
		{"no last line end", "data: a\n\ndata: b", []event{{"", "a"}, {"", "b"}}},
		{"byte order mark", "\ufeffdata: a\n\n", []event{{"", "a"}}},
		{"empty data", "data:\n\ndata\n\n", []event{{"", ""}, {"", ""}}},
		{"long", "data: " + long + "\n\n", []event{{"", long}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for how, in := range map[string]io.Reader{
				"whole":        strings.NewReader(c.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(c.in)),
				"with the end": iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				got, err := all(t, in, 1<<20)
				if err != io.EOF {
					t.Errorf("%s: error = %v, want EOF", how, err)
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Errorf("%s: events (-want +got):\n%s", how, d)
				}
			}
		})
	}
}

func TestReaderDeliversAnEventWithoutWaitingForTheNextByte(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r"} {
		in, out := io.Pipe()
		got := make(chan sse.Event, 1)
		go func() {
			e, _ := sse.NewReader(in, 100).Next()
			got <- e
		}()
		_, _ = io.WriteString(out, "data: a"+end)
		if e := <-got; string(e.Data) != "a" {
			t.Errorf("ended by %q: got %q, want a", end, e.Data)
		}
		_ = out.Close()
	}
}

func TestReaderRefusesAnEndlessEvent(t *testing.T) {
	for name, in := range map[string]string{
		"one line":   "data: " + strings.Repeat("x", 200),
		"many lines": strings.Repeat("data: x\n", 50),
		"a field":    strings.Repeat("id: x\n", 50),
		"a comment":  ":" + strings.Repeat("x", 200),
	} {
		if _, err := all(t, strings.NewReader(in), 100); !errors.Is(err, sse.ErrTooLong) {
			t.Errorf("%s: error = %v, want ErrTooLong", name, err)
		}
	}
	if got, err := all(t, strings.NewReader(strings.Repeat(": keep-alive\n", 1000)+"data: a\n\n"), 100); err != io.EOF || len(got) != 1 {
		t.Errorf("keep-alives counted: %v, %v", got, err)
	}
	if got, err := all(t, strings.NewReader(strings.Repeat("data: aaaa\n\n", 1000)), 100); err != io.EOF || len(got) != 1000 {
		t.Errorf("many events counted as one: %d, %v", len(got), err)
	}
}

func TestReaderSaysWhyTheStreamBroke(t *testing.T) {
	broken := errors.New("connection reset")
	got, err := all(t, io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), 100)
	if err != broken {
		t.Errorf("error = %v, want %v", err, broken)
	}
	if d := cmp.Diff([]event{{"", "a"}}, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "data: a\r\n\r\n", "\ufeffevent: x\rdata: y\r\r", ": c\n\ndata\n", "data: {\"a\":1}\n\ndata: [DONE]\n\n", "\n\r\n\r", "data:a\ndata:b",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 64
		whole, err := all(t, strings.NewReader(string(in)), limit)
		pieces, perr := all(t, iotest.OneByteReader(strings.NewReader(string(in))), limit)
		if d := cmp.Diff(whole, pieces); d != "" || errors.Is(err, sse.ErrTooLong) != errors.Is(perr, sse.ErrTooLong) {
			t.Fatalf("reading %q byte by byte differs (%v, %v):\n%s", in, err, perr, d)
		}
		for _, e := range whole {
			if len(e.Data) > limit || strings.ContainsAny(e.Name, "\r\n") || strings.Contains(e.Data, "\r") {
				t.Fatalf("event %+v from %q", e, in)
			}
		}
	})
}
