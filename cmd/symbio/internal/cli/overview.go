package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// group is a group of commands in the help.
type group struct {
	title string
	// shown are the commands of the group that `symbio` alone lists, more those that only --help lists.
	shown, more string
}

// groups has every command of symbio once. The list that `symbio` alone prints fits a terminal of 24 rows.
var groups = []group{
	{"Give work to agents", "run chat map", "sessions send invoke acp"},
	{"Bring machines together", "up cluster nodes members", "config backup restore demo doctor version"},
	{"Choose what agents can do", "agents skills mcp", ""},
	{"Watch, and decide what agents may do", "top approvals permissions", "dashboard events notify"},
}

// addGroups puts the commands of root into their groups.
func addGroups(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		names := strings.Fields(g.shown + " " + g.more)
		for _, c := range root.Commands() {
			if slices.Contains(names, c.Name()) {
				c.GroupID = g.title
			}
		}
	}
}

// overview returns what `symbio` alone prints: the first commands of each group.
func overview(root *cobra.Command) (string, error) {
	if err := addHelp(root); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintln(&b, root.Short+".")
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for _, name := range strings.Fields(g.shown) {
			c, _, err := root.Find([]string{name})
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "  %-12s %s\n", name, c.Short)
		}
	}
	fmt.Fprintln(&b, "Take the tour: symbio demo. All commands: symbio --help. One: symbio run --help.")
	return b.String(), nil
}
