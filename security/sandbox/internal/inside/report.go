package inside

import (
	"errors"
	"strconv"
)

// Report is one message of the helper to the process that started it, a line on statusFD. A helper
// sends NotStarted or Failed and ends, or sends Started and later Ended. It sends no Ended when it
// was told to end by its lifeline, or was killed.
type Report struct {
	// Kind is one of the constants below; ParseReport does not check it.
	Kind byte
	// Text says why; only for Failed and NotStarted.
	Text string
	// Status is the status of wait(2); only for Ended.
	Status int
}

// The kinds of reports.
const (
	// Started: the command runs; execve has succeeded.
	Started = 's'
	// NotStarted: the program is missing or cannot be executed. Nothing of it has run.
	NotStarted = 'n'
	// Failed: the sandbox could not be made. Nothing of the command has run, unless waiting for it
	// failed.
	Failed = 'f'
	// Ended: the command has ended by itself, and the helper has ended what it left behind.
	Ended = 'e'
)

// line returns the report as ParseReport reads it: the kind, the status in decimal, a space, the
// text quoted as in Go, and a line break. Quoting keeps a text with line breaks on one line.
func (r Report) line() []byte {
	return append([]byte{r.Kind}, strconv.Itoa(r.Status)+" "+strconv.Quote(r.Text)+"\n"...)
}

// errReport is the error for a line that is not a whole report, for example because the helper was
// killed while it wrote.
var errReport = errors.New("the report of the sandbox's helper is damaged")

// ParseReport reads a line that line wrote, with its line break.
func ParseReport(line []byte) (Report, error) {
	if len(line) < 2 || line[len(line)-1] != '\n' {
		return Report{}, errReport
	}
	r, rest := Report{Kind: line[0]}, string(line[1:len(line)-1])
	for i := range len(rest) {
		if rest[i] != ' ' {
			continue
		}
		status, err := strconv.Atoi(rest[:i])
		text, quoted := strconv.Unquote(rest[i+1:])
		if err != nil || quoted != nil {
			return Report{}, errReport
		}
		r.Status, r.Text = status, text
		return r, nil
	}
	return Report{}, errReport
}

// problem is an error with what was being done. It does what fmt.Errorf with %w does; package fmt
// must not be initialised before a helper.
type problem struct {
	doing string
	err   error
}

func (p *problem) Error() string { return p.doing + ": " + p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

// wrap returns err with what was being done before it, as an imperative: "mount /dev".
func wrap(doing string, err error) error { return &problem{doing, err} }

// startError marks an error that lies with the command and not with the sandbox. The helper reports
// it as NotStarted, and callers of package sandbox get ErrNotStarted.
type startError struct{ error }

func (n startError) Unwrap() error { return n.error }
