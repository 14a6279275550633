package skills

// Work is how much the last scan of s did: the files that it read, and which scan it was. It waits for
// one that runs.
func (s *Scanner) Work() (reads int64, scan any) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.last == nil {
		return 0, nil
	}
	return s.last.reads, s.last
}
