package security

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"symbio/agent/tool"
	"symbio/internal/security/visible"
)

// Terminal returns a Handler that shows each call on out and reads the answer, a line, from in. It
// asks one question at a time. The end of in is a no.
func Terminal(in io.Reader, out io.Writer) Handler {
	t := &terminal{in: bufio.NewReader(in), out: out, turn: make(chan struct{}, 1)}
	return t.ask
}

type terminal struct {
	in    *bufio.Reader
	out   io.Writer
	turn  chan struct{}  // capacity 1; has a value while a question is asked
	line  chan string    // the line that is being read; nil = none; belongs to the question that is asked
	reads sync.WaitGroup // of at most one read: a question that ends early leaves it to the next
}

func (t *terminal) ask(ctx context.Context, d tool.Decision) tool.Answer {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return tool.Answer{Why: "It was not answered in time."}
	}
	if len(t.line) > 0 { // it was typed before this question was there
		<-t.line
		t.line = nil
	}
	args, err := visible.JSON(d.Shown())
	if err != nil {
		args = []byte("(arguments that cannot be shown)")
	}
	fmt.Fprintf(t.out, "%s wants to call %s %s\n%s\n", visible.Escape(d.Agent), visible.Escape(d.Tool), visible.Escape(string(args)), visible.Escape(d.Verdict.Why))
	for {
		fmt.Fprint(t.out, "Allow it? y = once, a = always in this session, n = no, b = block always in this session\n> ")
		if t.line == nil {
			t.read()
		}
		select {
		case line := <-t.line:
			t.line = nil
			if answer, ok := answers[strings.ToLower(strings.TrimSpace(line))]; ok || line == "" {
				answer.By = "terminal"
				return answer
			}
		case <-ctx.Done():
			fmt.Fprintln(t.out, "\nIt is no longer asked.")
			return tool.Answer{Why: "It was not answered in time."}
		}
	}
}

// answers are what a line means. Another line is asked again; the end of the input is a no.
var answers = map[string]tool.Answer{
	"y": {Allow: true}, "yes": {Allow: true}, "a": {Allow: true, Always: true}, "always": {Allow: true, Always: true},
	"n": {}, "no": {}, "b": {Always: true}, "block": {Always: true},
}

// read reads a line while the question may end.
func (t *terminal) read() {
	line := make(chan string, 1)
	t.line = line
	t.reads.Go(func() {
		text, _ := t.in.ReadString('\n') // without an end it is no answer
		if !strings.HasSuffix(text, "\n") {
			text = ""
		}
		line <- text
	})
}
