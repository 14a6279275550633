package inside

import (
	"errors"
	"strconv"
)

// Report is what the helper says: that the command runs, or why it does not, and later how it ended.
type Report struct {
	Kind   byte
	Text   string // of Failed and NotStarted: why
	Status int    // of Ended: as wait has it
}

// The kinds of reports.
const (
	Started    = 's'
	NotStarted = 'n' // the command itself is at fault
	Failed     = 'f' // the sandbox could not be made
	Ended      = 'e'
)

// line returns the report for ParseReport.
func (r Report) line() []byte {
	return []byte(string(r.Kind) + strconv.Itoa(r.Status) + " " + strconv.Quote(r.Text) + "\n")
}

// errReport is that a line is no report.
var errReport = errors.New("what the helper says is damaged")

// ParseReport reads a line of the helper.
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

// problem is an error with what was being done; package fmt comes too late for a helper.
type problem struct {
	doing string
	err   error
}

func (p *problem) Error() string { return p.doing + ": " + p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

func wrap(doing string, err error) error { return &problem{doing, err} }

// notStarted is an error that the command itself is at fault for.
type notStarted struct{ error }

func (n notStarted) Unwrap() error { return n.error }
