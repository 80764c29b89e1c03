#!/bin/sh
# Makes the secrets that compose.yaml mounts, in ./secrets beside this file or in the folder given.
# What is there already stays as it is.
set -eu

folder=${1:-$(dirname "$0")/secrets}
umask 077
mkdir -p "$folder"

random() {
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n'
}

# Readable by all below a folder that is its owner's alone: containers run as users of their own.
keep() {
    if [ ! -e "$folder/$1" ]; then
        printf '%s\n' "$2" >"$folder/$1"
        chmod 644 "$folder/$1"
    fi
}

keep postgres_password "$(random)"
keep redis_password "$(random)"
keep nats_password "$(random)"
keep intake_token "$(random)"
keep operator_token "$(random)"

postgres=$(cat "$folder/postgres_password")
redis=$(cat "$folder/redis_password")
nats=$(cat "$folder/nats_password")

keep store_url "postgresql://triage:$postgres@postgres:5432/triage"
keep queue_url "redis://triage:$redis@redis:6379/0"
keep nats_url "nats://triage:$nats@nats:4222"
keep redis_users "user default on nopass -@all +ping
user triage on >$redis ~* &* +@all"
keep nats_users "authorization { users = [{ user: triage, password: \"$nats\" }] }"
