package sandbox_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/security/sandbox"
)

var update = flag.Bool("update", false, "write testdata anew")

func TestSeatbeltProfiles(t *testing.T) {
	standard := sandbox.Policy{Network: sandbox.NetworkLocal, Subprocess: true,
		Files: sandbox.Files{Read: []string{"/"}, Write: []string{"/Users/ann/work"}, Temp: true}}
	narrow := standard
	narrow.Files.Read, narrow.Network, narrow.Unprotected = nil, sandbox.NetworkNone, true
	for name, p := range map[string]sandbox.Policy{
		"zero": {}, "standard": standard, "narrow": narrow, "restrictive": sandbox.Restrictive(), "permissive": sandbox.Permissive(),
	} {
		t.Run(name, func(t *testing.T) {
			profile, params := sandbox.Seatbelt(p, "/Users/ann/work", "/private/tmp/x")
			got := profile
			for _, k := range slices.Sorted(maps.Keys(params)) {
				got += fmt.Sprintf("-D %s=%s\n", k, params[k])
			}
			file := "testdata/seatbelt-" + name + ".txt"
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the profile (-want +got):\n%s", diff)
			}
			if strings.Contains(profile, "/Users/ann") {
				t.Error("a path is part of the profile's text")
			}
		})
	}
}
