package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent"
	"symbio/agent/tool"
	"symbio/security/permission"
)

// maxLine bounds a line of standard input, in bytes. It is larger than the largest task that a node
// accepts, so that the node reports the limit and not the scanner.
const maxLine = 1 << 20

// Input is standard input, read line by line. It is read only while a caller waits for a line, so
// that text which is typed ahead stays for the program that runs after this one.
type Input struct {
	// lines has no buffer: the reader stops at each line until a caller takes it. It is closed at
	// the end of the input.
	lines chan string
	start func()
	// Err is the error that ended the input, nil at a normal end. It may be read only after the
	// channel of Next is closed, which orders the write before the read.
	Err error
}

// NewInput returns the lines of an input. Reading starts with the first call of Next.
//
// The reading goroutine is not stopped: a read of a terminal cannot be interrupted, so a pending
// read ends with the process.
func NewInput(r io.Reader) *Input {
	in := &Input{lines: make(chan string)}
	var reader errgroup.Group
	in.start = sync.OnceFunc(func() {
		reader.Go(func() error {
			defer close(in.lines)
			read := bufio.NewScanner(r)
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

// Next returns the channel on which the next line arrives, and starts the reader if it has not been
// started. The channel is closed at the end of the input or after an error; see Err.
func (in *Input) Next() <-chan string {
	in.start()
	return in.lines
}

// ReadLine returns the next line of an input. It reads no byte behind it, so that what is typed
// ahead stays for the conversation that follows. The error is io.EOF at the end of the input, or the
// cause of ctx: then a read stays behind, which ends with the process.
func ReadLine(ctx context.Context, r io.Reader) (string, error) {
	var line []byte
	end := make(chan error, 1)
	var reader errgroup.Group
	reader.Go(func() error {
		for b := [1]byte{}; len(line) < maxLine; {
			n, err := r.Read(b[:])
			if n > 0 && b[0] != '\n' {
				line = append(line, b[0])
			}
			if err != nil || n > 0 && b[0] == '\n' {
				end <- err
				return nil
			}
		}
		end <- bufio.ErrTooLong
		return nil
	})
	select {
	case err := <-end:
		return strings.TrimSuffix(string(line), "\r"), err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Confirm asks the person at the terminal a yes-or-no question. "y" and "yes" are a yes; any other line and the end of the
// input are a no. It blocks until there is a line, and returns an error only when ctx ends.
func (env *Env) Confirm(ctx context.Context, question string) (bool, error) {
	fmt.Fprint(env.Err, question+" [y/N] ")
	line, err := ReadLine(ctx, env.In)
	if ctx.Err() != nil {
		return false, err
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// argument returns the argument of a command; for "-" the whole of in, which is standard input.
func argument(in io.Reader, arg string) ([]byte, error) {
	if arg != "-" {
		return []byte(arg), nil
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("reading standard input: %w", err)
	}
	return data, nil
}

// Text returns the text argument of a command, called name in the error: args joined, or the whole
// of standard input when it is "-". Blank text is wrong usage.
func Text(in io.Reader, name string, args []string) (string, error) {
	text, err := argument(in, strings.Join(args, ""))
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		err = Usage(fmt.Errorf("there is no %s: give it as an argument, or - to read standard input", name))
	}
	return string(text), err
}

// maxPiped bounds what is piped to a command beside its argument, in bytes: about 64,000 tokens.
const maxPiped = 256 << 10

// PipedInput returns what is piped to the command, or redirected from a file, as a section to put
// below its text argument; "" if standard input is another thing, such as a terminal, or is empty.
//
// It reads to the end of the input, but gives up with a note if there is no byte within wait: the
// pending read then ends with the process. The error is wrong usage for more than maxPiped bytes, and
// the cause of ctx when that ends.
func PipedInput(ctx context.Context, env *Env, wait time.Duration) (string, error) {
	f, ok := env.In.(*os.File)
	if !ok {
		return "", nil
	}
	if at, err := f.Stat(); err != nil || !at.Mode().IsRegular() && at.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return "", nil
	}
	in := bufio.NewReader(f)
	started, ended := make(chan struct{}), make(chan error, 1)
	var text []byte
	var reader errgroup.Group
	reader.Go(func() error {
		_, _ = in.Peek(1) // ReadAll returns its error
		close(started)
		var err error
		text, err = io.ReadAll(io.LimitReader(in, maxPiped+1))
		ended <- err
		return nil
	})
	select {
	case <-started:
	case <-time.After(wait):
		env.Notef("note: standard input is open, but nothing came within %v, so the task goes without it; add </dev/null to leave it out at once", wait)
		return "", nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("reading standard input: %w", err)
	case len(text) > maxPiped:
		return "", Usage(fmt.Errorf("standard input has more than %d KiB; store it in a file, and name that in the task", maxPiped>>10))
	case len(bytes.TrimSpace(text)) == 0:
		return "", nil
	}
	return agent.Piped + strings.ToValidUTF8(string(text), "\uFFFD"), nil
}

// Payload returns the DATA argument of a command as JSON. Valid JSON is passed through, other text
// becomes a JSON string, "" becomes null, and "-" reads the whole of standard input. Text that begins
// as an object and is none is wrong usage.
func Payload(in io.Reader, arg string) ([]byte, error) {
	data, err := argument(in, arg)
	switch {
	case err != nil:
		return nil, err
	case len(data) == 0:
		return []byte("null"), nil
	case json.Valid(data):
		return data, nil
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		var whole any
		return nil, Usage(fmt.Errorf("DATA begins as JSON and is none: %w; a text as it is goes in quotes, as \"...\"", json.Unmarshal(data, &whole)))
	}
	return json.Marshal(string(data))
}

// ToolCall returns the call of a tool with the arguments in text, in the current directory. text is
// a JSON object, "" for none, or "-" for standard input; anything else is wrong usage. Relative
// paths in the arguments are resolved in that directory. It blocks while it reads standard input.
func ToolCall(in io.Reader, name, text string) (permission.Call, error) {
	dir, err := os.Getwd()
	if err != nil {
		return permission.Call{}, err
	}
	call := permission.Call{Tool: name, Args: map[string]any{}, Dir: dir}
	if text == "" {
		return call, nil
	}
	data, err := argument(in, text)
	if err != nil {
		return call, err
	}
	if call.Args, err = tool.DecodeArgs(data); err != nil {
		return call, Usage(fmt.Errorf("ARGS: want a JSON object such as {\"file_path\": \"notes.md\"}: %w", err))
	}
	return call, nil
}
