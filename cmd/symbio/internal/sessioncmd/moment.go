package sessioncmd

import (
	"fmt"
	"time"

	"symbio/agent/node/config"
)

// moment is a point in time as the value of a flag: an age, such as 7d or 24h, or a day of UTC, such as 2026-11-01.
type moment struct {
	time time.Time
	text string
}

// UnmarshalText reads a moment. An age is one before now.
func (m *moment) UnmarshalText(text []byte) (err error) {
	m.text = string(text)
	var age config.Age
	if age.UnmarshalText(text) == nil && age >= 0 {
		m.time = time.Now().Add(-time.Duration(age))
		return nil
	}
	if m.time, err = time.Parse(time.DateOnly, m.text); err != nil {
		return fmt.Errorf("%.40q is no time; write an age such as 7d or 24h, or a day such as 2026-11-01", m.text)
	}
	return nil
}

// MarshalText returns the moment as it was written.
func (m moment) MarshalText() ([]byte, error) { return []byte(m.text), nil }
