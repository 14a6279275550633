package peers

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"symbio/discovery"
	symbiov1 "symbio/proto/symbio/v1"
)

// mute is a source that knows nothing of its health, ill one that does.
type mute struct{ name string }

func (m mute) Name() string                                      { return m.name }
func (mute) Run(context.Context, func(discovery.Sighting)) error { return nil }

type ill struct {
	mute
	err error
}

func (i ill) Health() error { return i.err }

func TestSourcesReportOneLinePerFault(t *testing.T) {
	p := &Peers{Sources: []discovery.Source{
		ill{mute{"mdns"}, errors.Join(errors.New("eth0: no"), errors.New("wlan0: no"))}, ill{mute{"static"}, nil}, mute{"introduced"},
	}}
	want := []*symbiov1.SourceHealth{
		{Name: "mdns", Problems: []string{"eth0: no", "wlan0: no"}}, {Name: "static"}, {Name: "introduced"},
	}
	if diff := cmp.Diff(want, p.SourceHealth(), protocmp.Transform()); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
}
