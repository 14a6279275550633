package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxLine bounds a line of standard input, in bytes: more than a task may have.
const maxLine = 1 << 20

// Input is standard input, line by line. It is read when a caller waits for a line, and not before: what is typed
// ahead stays for the programs that follow.
type Input struct {
	lines chan string // closed at the end
	start func()
	Err   error // why it ended; read after lines is closed
}

// Input returns standard input. A read of a terminal cannot be interrupted: a read without a waiting caller
// ends with the process.
func (env *Env) Input() *Input {
	in := &Input{lines: make(chan string)}
	var reader errgroup.Group
	in.start = sync.OnceFunc(func() {
		reader.Go(func() error {
			defer close(in.lines)
			read := bufio.NewScanner(env.In)
			read.Buffer(nil, maxLine)
			for read.Scan() {
				in.lines <- read.Text()
			}
			if in.Err = read.Err(); errors.Is(in.Err, bufio.ErrTooLong) {
				in.Err = fmt.Errorf("a line of standard input is longer than %d KiB", maxLine>>10)
			}
			return nil
		})
	})
	return in
}

// Next is the channel of the next line.
func (in *Input) Next() <-chan string {
	in.start()
	return in.lines
}

// Confirmer returns a function that asks the person at the terminal a question. What is not a yes is a no, and so is the end
// of the input; the error is that of ctx.
func (env *Env) Confirmer() func(ctx context.Context, question string) (bool, error) {
	in := env.Input()
	return func(ctx context.Context, question string) (bool, error) {
		fmt.Fprint(env.Err, question+" [y/N] ")
		select {
		case line := <-in.Next():
			answer := strings.ToLower(strings.TrimSpace(line))
			return answer == "y" || answer == "yes", nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// JoinContinued joins a line to those before it that ended in a backslash; more: another one follows.
func JoinContinued(before []string, line string) (text string, more bool) {
	rest, more := strings.CutSuffix(line, `\`)
	return strings.Join(append(before, rest), "\n"), more
}

// Text is an argument of that name, or standard input for "-".
func (env *Env) Text(name string, args []string) (string, error) {
	text := strings.Join(args, "")
	if text == "-" {
		data, err := io.ReadAll(env.In)
		if err != nil {
			return "", fmt.Errorf("reading standard input: %w", err)
		}
		text = string(data)
	}
	if strings.TrimSpace(text) == "" {
		return "", Usage(fmt.Errorf("there is no %s; give one as an argument, or - for standard input", name))
	}
	return text, nil
}

// Payload is a command's DATA argument as JSON: JSON as it stands, other text as a JSON string, "-"
// the whole of standard input.
func (env *Env) Payload(arg string) ([]byte, error) {
	data := []byte(arg)
	if arg == "-" {
		var err error
		if data, err = io.ReadAll(env.In); err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
	}
	if len(data) == 0 {
		return []byte("null"), nil
	}
	if json.Valid(data) {
		return data, nil
	}
	return json.Marshal(string(data))
}
