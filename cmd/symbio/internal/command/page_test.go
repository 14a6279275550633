package command

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestPageWaitsAfterEachScreen(t *testing.T) {
	for _, c := range []struct {
		rows    int
		answers string
		printed int
		asked   int
	}{{3, "", 3, 0}, {4, " ", 4, 1}, {9, "  ", 9, 2}, {9, "q", 3, 1}, {9, " q", 6, 2}, {9, "", 3, 1}} {
		var out, asked bytes.Buffer
		var rows []string
		for i := range c.rows {
			rows = append(rows, fmt.Sprint(i))
		}
		_ = page(&Env{Out: &out, Err: &asked}, rows, 3, func() (string, error) {
			if c.answers == "" {
				return "", errors.New("the input has ended")
			}
			line := strings.TrimSpace(c.answers[:1])
			c.answers = c.answers[1:]
			return line, nil
		})
		if n, m := strings.Count(out.String(), "\n"), strings.Count(asked.String(), "--"); n != c.printed || m != 2*c.asked {
			t.Errorf("of %d rows %d are printed, %q", c.rows, n, asked.String())
		}
	}
}
