# What must work on a machine that has nothing but the static executable; script/arm64 runs it on an emulated one, whose
# figures nobody should see.
/lasthop --version
/lasthop doctor
/lasthop run --budget 20s -q --format json >/root/result.json
grep -q '"failures": \[\]' /root/result.json
/lasthop runs
/lasthop clean
left=$(ls -A /tmp; ls -A /dev/shm; pidof lasthop || true)
[ -z "$left" ] || { echo "left: $left"; exit 1; }
