// Package oracle compares our clients of models' servers with the providers' own, in tests only.
package oracle
