package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// canPick says whether a person is there to choose from a list.
func (a *App) canPick() bool {
	in, ok := a.In.(*os.File)
	return ok && !a.json && a.InIsTerminal && a.OutIsTerminal && a.Getenv("TERM") != "dumb" && canRaw(in)
}

// pickSkills lets a person look through the skills and switch them on and off.
func (a *App) pickSkills(ctx context.Context, file string) error {
	all, err := a.listSkills(ctx, skillQuery{file: file})
	if err != nil {
		return err
	}
	a.printLeftOut(all)
	if len(all.skills) == 0 {
		fmt.Fprintln(a.Err, "There are no skills here. A skill is a directory with a SKILL.md, in .agents/skills or ~/.agents/skills.")
		return nil
	}
	s, err := a.newSwitch(all)
	if err != nil {
		return err
	}
	p := s.picker()
	keep, err := a.pick(ctx, p)
	if err != nil {
		return err
	}
	if !keep || p.changed() == 0 {
		_, err := fmt.Fprintln(a.Out, "Nothing is changed.")
		return err
	}
	for i, r := range p.rows {
		if r.on == r.was {
			continue
		}
		if err := s.flip(all.skills[i].Path, r.on); err != nil {
			return err
		}
	}
	return a.reportSwitched(ctx, file, s.wanted)
}

// picker is the list of the skills that are here. What a choice by name has switched off, or a configuration,
// this list does not switch on: it would be more than the row that was seen.
func (s *skillSwitch) picker() *picker {
	p := &picker{}
	for _, k := range s.all {
		row := pickRow{name: k.Name, scope: k.Scope, text: clip(k.Description, 200), on: k.Enabled, was: k.Enabled}
		switch {
		case k.Enabled:
		case s.chosen(k.Name) && len(s.meant(k.Name)) > 1:
			row.locked = "by its name, with others: symbio skills enable " + k.Name
		case by(s.off, k) == "":
			row.locked = k.OffBy
		}
		p.rows = append(p.rows, row)
	}
	return p
}

// pick shows a list until a person keeps or leaves what they chose, ctx ends or the terminal is gone. It leaves the
// terminal as it was.
func (a *App) pick(ctx context.Context, p *picker) (keep bool, err error) {
	in, ok := a.In.(*os.File)
	if !ok {
		return false, errors.New("this is not a terminal")
	}
	restore, err := rawTerminal(in)
	if err != nil {
		return false, fmt.Errorf("the terminal: %w", err)
	}
	fmt.Fprint(a.Out, "\x1b[?1049h\x1b[?25l") // a screen of its own, without a cursor
	defer func() {
		fmt.Fprint(a.Out, "\x1b[?25h\x1b[?1049l")
		err = errors.Join(err, restore())
	}()
	color := a.Getenv("NO_COLOR") == ""
	var shown []byte
	typed := typing{in: in}
	for {
		columns, lines := terminalSize(in)
		if screen := screenOf(p.view(columns, lines, color)); !bytes.Equal(screen, shown) {
			shown = screen
			if _, err := a.Out.Write(screen); err != nil {
				return false, err
			}
		}
		pressed, err := typed.next()
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for _, key := range pressed {
			switch p.press(key, max(1, lines-frame)) {
			case pickKeep:
				return true, nil
			case pickLeave:
				return false, nil
			}
		}
	}
}

// screenOf writes lines from the upper left corner, and takes away what was there.
func screenOf(lines []string) []byte {
	var b bytes.Buffer
	b.WriteString("\x1b[H")
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	return b.Bytes()
}
