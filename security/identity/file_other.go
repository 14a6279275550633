//go:build !unix

package identity

import "io/fs"

// Windows has no mode bits: a file in the user's profile inherits an access list that names the
// user, the system and the administrators.

func privateFile(string, fs.FileInfo) error { return nil }

func privateDir(string, fs.FileInfo) error { return nil }
