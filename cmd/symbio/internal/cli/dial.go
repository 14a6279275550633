package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"google.golang.org/grpc"

	symbiov1 "symbio/proto/symbio/v1"
)

// errNoNode says that there is no node to talk to.
var errNoNode = unavailable(errors.New("no node is running on this machine\nStart one with: symbio up"))

// dial connects to the node that the flags mean; the caller closes it.
func (a *App) dial() (symbiov1.ControlClient, *grpc.ClientConn, error) {
	state, err := a.state()
	if err != nil {
		return nil, nil, err
	}
	name := a.node
	if name == "" {
		if name, err = a.onlyNode(); err != nil {
			return nil, nil, err
		}
	} else if _, err := os.Stat(state.Socket(name)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, unavailable(fmt.Errorf("no node %q is running on this machine\nStart it with: symbio up --name %s", name, name))
	}
	conn, err := state.Dial(name)
	if err != nil {
		return nil, nil, err
	}
	return symbiov1.NewControlClient(conn), conn, nil
}

// onlyNode is the name of the one node that runs here.
func (a *App) onlyNode() (string, error) {
	state, err := a.state()
	if err != nil {
		return "", err
	}
	names, err := state.Running()
	switch {
	case err != nil:
		return "", err
	case len(names) == 0:
		return "", errNoNode
	case len(names) > 1:
		return "", usage(fmt.Errorf("%d nodes are running here: %s\nSay which with --node NAME", len(names), strings.Join(names, ", ")))
	}
	return names[0], nil
}
