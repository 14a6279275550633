package command

import (
	"context"
	"fmt"
	"strings"

	"symbio/cmd/symbio/internal/terminal"
)

// Page prints a text of several lines, which is made safe for a terminal. Where a person reads it and it is longer than the
// screen, it waits after each screen: Enter shows the next one, a line with q ends the text. The error comes from ctx.
func (env *Env) Page(ctx context.Context, text string) error {
	if height := terminal.Height(env.Out); env.OutIsTerminal && env.InIsTerminal && height > 2 {
		return page(env, terminal.Rows(text, terminal.Columns(env.Out)), height-1, func() (string, error) { return ReadLine(ctx, env.In) })
	}
	_, err := fmt.Fprintln(env.Out, terminal.PrintableLines(strings.TrimRight(text, "\n")))
	return err
}

// page prints rows, and calls next after each screen of them but the last.
func page(env *Env, rows []string, screen int, next func() (string, error)) error {
	for i, row := range rows {
		if i > 0 && i%screen == 0 {
			fmt.Fprintf(env.Err, "-- %d of %d lines. Enter: go on, q: end of the text -- ", i, len(rows))
			if line, err := next(); err != nil || line != "" {
				return err
			}
		}
		if _, err := fmt.Fprintln(env.Out, row); err != nil {
			return err
		}
	}
	return nil
}
