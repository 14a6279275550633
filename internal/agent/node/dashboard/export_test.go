package dashboard

// FormOfSession returns what the forms of a session's pages have, "" if there is no such session.
func (d *Dashboard) FormOfSession(cookie string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sites {
		if found := s.sessions.find(cookie, false); found != nil {
			return found.form
		}
	}
	return ""
}
