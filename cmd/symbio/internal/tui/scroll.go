package tui

// Scroll is the part of a list or of a text that is on the screen. The zero Scroll shows the beginning of a text.
type Scroll struct {
	// List is true if a row can be chosen: Chosen is its number. Top is the first row on the screen.
	List        bool
	Chosen, Top int
	// rows is how many there are, page how many fit.
	rows, page int
}

// Key moves by a key. It returns false for a key that does not move.
func (s *Scroll) Key(name string) bool {
	by, ok := map[string]int{
		"up": -1, "k": -1, "ctrl+p": -1, "down": 1, "j": 1, "ctrl+n": 1, "pgup": -s.page, "ctrl+b": -s.page, "pgdown": s.page,
		"ctrl+f": s.page, "space": s.page, "home": -s.rows, "g": -s.rows, "end": s.rows, "G": s.rows,
	}[name]
	if s.List {
		s.Chosen += by
	} else {
		s.Top += by
	}
	s.Fit(s.rows, s.page)
	return ok
}

// Fit takes the number of rows and of those that fit, and returns the first on the screen and the one behind the last.
func (s *Scroll) Fit(rows, page int) (from, to int) {
	s.rows, s.page = rows, max(1, page)
	s.Chosen = max(0, min(s.Chosen, rows-1))
	s.Top = max(0, min(s.Top, rows-s.page))
	if s.List {
		s.Top = max(min(s.Top, s.Chosen), s.Chosen-s.page+1)
	}
	return s.Top, min(rows, s.Top+s.page)
}

// AtEnd reports whether the last row is on the screen.
func (s *Scroll) AtEnd() bool { return s.Top+s.page >= s.rows }
