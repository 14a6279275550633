package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxLine bounds a line of standard input, in bytes: more than a task may have.
const maxLine = 1 << 20

// input is standard input, line by line. It is read when somebody waits for a line, and not before: what is typed
// ahead stays for the programs that follow.
type input struct {
	lines chan string // closed at the end
	start func()
	err   error // why it ended; read after lines is closed
}

// input returns standard input. A read of a terminal cannot be interrupted: the one that nobody waits for any longer
// ends with the process.
func (a *App) input() *input {
	in := &input{lines: make(chan string)}
	var reader errgroup.Group
	in.start = sync.OnceFunc(func() {
		reader.Go(func() error {
			defer close(in.lines)
			read := bufio.NewScanner(a.In)
			read.Buffer(nil, maxLine)
			for read.Scan() {
				in.lines <- read.Text()
			}
			if in.err = read.Err(); errors.Is(in.err, bufio.ErrTooLong) {
				in.err = fmt.Errorf("a line of standard input is longer than %d KiB", maxLine>>10)
			}
			return nil
		})
	})
	return in
}

// next is the channel of the next line.
func (in *input) next() <-chan string {
	in.start()
	return in.lines
}

// typed returns a function that waits for the next line of standard input, or for the end of ctx. At the end of the
// input every line is empty.
func (a *App) typed() func(context.Context) (string, error) {
	in := a.input()
	return func(ctx context.Context) (string, error) {
		select {
		case line := <-in.next():
			return line, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// continued joins a line to those before it that ended in a backslash; more: another one follows.
func continued(before []string, line string) (text string, more bool) {
	rest, more := strings.CutSuffix(line, `\`)
	return strings.Join(append(before, rest), "\n"), more
}
