package definition

import (
	"slices"
	"strings"

	"symbio/security/visible"
)

// maxListed is how many names fit a message that a person reads at a glance.
const maxListed = 24

// suggest returns the end of a message about an unknown name: the known name that was probably
// meant, or all known names if they are few.
func suggest(name string, known []string) string {
	if near := visible.Suggest(name, known); near != "" || len(known) == 0 || len(known) > maxListed {
		return near
	}
	return "; there are " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}
