package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Session says how conversations are kept over restarts.
type Session struct {
	// Store is where they are kept: StoreSQLite, StoreMemory (until the node ends) or StoreOff.
	Store string `yaml:"store"`
	// Keep is the age, and Max the size of the file, above which the oldest
	// finished sessions are deleted. Unfinished ones are never deleted. 0 = no
	// limit.
	Keep Age  `yaml:"keep"`
	Max  Size `yaml:"max"`
	// Resume says what becomes of tasks that the end of the node interrupted:
	// ResumeAsk lists them for a person, ResumeAuto goes on with them.
	Resume string `yaml:"resume"`
}

// Artifacts says how many results and pictures are kept that are too large for a model.
type Artifacts struct {
	// MaxSize bounds all of them together; what was used longest ago goes first.
	MaxSize Size `yaml:"max_size"`
	// Keep is how long one that no session names stays after its last use.
	Keep Age `yaml:"keep"`
}

func (a Artifacts) check(bad func(format string, args ...any)) {
	if a.MaxSize <= 0 || a.Keep < 0 {
		bad("artifacts: max_size has to be more than 0, such as 1GiB, and keep 0 or more, such as 24h")
	}
}

// The values of Session.
const (
	StoreSQLite, StoreMemory, StoreOff = "sqlite", "memory", "off"
	ResumeAsk, ResumeAuto              = "ask", "auto"
)

// defaultSession keeps a month of conversations. 2 GiB are some hundred thousand
// turns.
func defaultSession() Session {
	return Session{Store: StoreSQLite, Keep: Age(30 * 24 * time.Hour), Max: 2 << 30, Resume: ResumeAsk}
}

// check reports values that are none of the known ones.
func (s Session) check(bad func(format string, args ...any)) {
	for _, c := range []struct {
		key, value string
		known      []string
	}{
		{"store", s.Store, []string{StoreSQLite, StoreMemory, StoreOff}}, {"resume", s.Resume, []string{ResumeAsk, ResumeAuto}},
	} {
		if !slices.Contains(c.known, c.value) {
			bad("session.%s: %q is none of %s", c.key, c.value, strings.Join(c.known, ", "))
		}
	}
	if s.Keep < 0 || s.Max < 0 {
		bad("session: keep and max have to be 0, for no limit, or more")
	}
}

// Age is a duration that may be written in days, such as 30d.
type Age time.Duration

// UnmarshalText reads days, such as 30d, or a duration, such as 36h.
func (a *Age) UnmarshalText(text []byte) error {
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return fmt.Errorf("%q is no number of days; write it like 30d", text)
		}
		*a = Age(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration; write it like 30d or 36h", text)
	}
	*a = Age(d)
	return nil
}

// MarshalText writes whole days as days.
func (a Age) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// String returns the age as it is written.
func (a Age) String() string {
	const day = Age(24 * time.Hour)
	if a%day == 0 && a > 0 {
		return strconv.Itoa(int(a/day)) + "d"
	}
	return time.Duration(a).String()
}

// Size is a number of bytes that may be written with a unit, such as 2GiB.
type Size int64

// units are the units of a Size, the largest first.
var units = []struct {
	name  string
	bytes Size
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// UnmarshalText reads a number with or without a unit.
func (s *Size) UnmarshalText(text []byte) error {
	for _, u := range units {
		number, ok := strings.CutSuffix(string(text), u.name)
		if n, err := strconv.ParseUint(number, 10, 33); ok && err == nil {
			*s = Size(n) * u.bytes
			return nil
		}
	}
	return fmt.Errorf("%q is no size; write it like 2GiB, 500MiB or 64KiB", text)
}

// MarshalText writes the size with the largest unit that fits.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns the size as it is written.
func (s Size) String() string {
	for _, u := range units {
		if s%u.bytes == 0 && s >= u.bytes {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return "0"
}
