package node

import (
	"errors"
	"fmt"

	"symbio/community"
)

// advised adds to why a call of m failed what its caller can do about it. verb and name are as in an
// authorize rule: "invoke" and a capability, or "send" and a perception.
func (c *control) advised(err error, m community.Member, verb, name string) error {
	switch {
	case errors.Is(err, community.ErrInvalid) && verb == "invoke":
		return fmt.Errorf("%w; `symbio capabilities %s --json` shows what it takes", err, name)
	case errors.Is(err, community.ErrDenied) && m.Node != c.node.id && community.Explanation(err) == "": // by authorize
		return fmt.Errorf("%w; node %s must allow it in its configuration: authorize: [{from: %q, %s: [%q]}]",
			err, c.node.nodeName(m.Node), c.node.id, verb, name)
	}
	return err
}
