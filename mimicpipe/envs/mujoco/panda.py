"""A Franka Panda with its hand, built with MjSpec from published figures; primitive shapes only.

Sources, named beside each table:
[DH]   Franka Control Interface documentation, "Denavit-Hartenberg parameters" and "Limits for Panda".
[URDF] franka_ros, franka_description: robots/common/{inertial.yaml, franka_hand.xacro}, robots/panda/joint_limits.yaml.
[GAZ]  Gaz, Cognetti, Oliva, Robuffo Giordano and De Luca, "Dynamic identification of the Franka Emika Panda robot with
       retrieval of feasible parameters using penalty-based optimization", RA-L 4(4), 2019: the inertias of [URDF].
[MEN]  MuJoCo Menagerie, franka_emika_panda/panda.xml.
"""

import math
from dataclasses import dataclass

import mujoco
import numpy as np

ARM_JOINTS = tuple(f"panda_joint{i}" for i in range(1, 8))
FINGER_JOINTS = ("panda_finger_joint1", "panda_finger_joint2")
HAND_BODY = "panda_hand"

# [DH], Craig's convention: link i's frame is RotX(twist) TransX(a) RotZ(theta) TransZ(d) from link i - 1's.
# Twist in quarter turns, a and d in metres.
DH_TWIST = (0, -1, 1, 1, -1, 1, 1)
DH_A = (0.0, 0.0, 0.0, 0.0825, -0.0825, 0.0, 0.088)
DH_D = (0.333, 0.0, 0.316, 0.0, 0.384, 0.0, 0.0)

FLANGE_OFFSET = 0.107
"""Link 7's frame to the flange, metres [DH]."""
HAND_YAW = -math.pi / 4
"""Hand's frame about the flange's z axis, radians [URDF]."""
GRASP_OFFSET = 0.1034
"""Hand's frame to the grasp point between the fingertips, metres [URDF, `hand_tcp`]."""

JOINT_LOWER = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
JOINT_UPPER = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
"""Joint range, radians [URDF, joint_limits.yaml]."""
MAX_FINGER = 0.04
"""Travel of one finger, metres [URDF]."""

ARM_TORQUE = (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)
"""Joint torque limits, N m [URDF]."""
_ARMATURE = 0.1
"""Rotor inertia seen at an arm joint, kg m2 [MEN]."""
_JOINT_INERTIA = (1.3, 1.7, 1.15, 1.1, 0.13, 0.15, 0.107)
"""Mean inertia at each joint around the rest posture, rotor included, kg m2: the diagonal of this model's mass matrix,
averaged over normal joint offsets of 0.4 rad."""
_NATURAL_FREQUENCY = 20.0
"""Of every joint's servo, critically damped, rad/s. Chosen: all joints settle alike, in about three control steps, and
action noise of 0.05 neither saturates the wrist nor shakes a cube out of the fingers. It gives 440 to 680 N m/rad and
44 to 68 N m s/rad for joints 1 to 4 (franka_ros' impedance example: 600 and 50). robosuite's OSC has 12 rad/s."""
ARM_KP = tuple(inertia * _NATURAL_FREQUENCY**2 for inertia in _JOINT_INERTIA)
"""Servo stiffness, N m/rad."""
ARM_DAMPING = tuple(2.0 * inertia * _NATURAL_FREQUENCY for inertia in _JOINT_INERTIA)
"""N m s/rad. It acts at the joint, not in the servo: the integrator treats joint damping implicitly, while damping
inside a force limit makes a saturated servo chatter at this time step."""

GRIP_FORCE = 15.0
"""Largest force of a finger, N. The hand's data sheet gives 30 to 70 N of grip; less holds a 0.1 kg cube and presses
less deep into it."""
FINGER_SPEED = 0.2
"""Speed at which the force limit meets the damping, m/s [URDF, velocity limit]."""
_FINGER_KP = 1000.0
"""Stiffness of a finger's servo, N/m: full force from 15 mm on."""
_FINGER_ARMATURE = 0.5
"""Motor inertia seen at a finger, kg. Chosen: with less, a light cube between the tips vibrates at this time step."""

# Collision bits: the table and the cubes meet everything that moves; the robot does not meet itself (the joint limits
# and the IK's rest posture keep the arm from that), so self pairs cost nothing.
# One arm meets another: each has a bit of its own.
TABLE_BIT, OBJECT_BIT, ROBOT_BIT = 1, 2, 4
MAX_ARMS = 2
ROBOT_BITS = sum(ROBOT_BIT << index for index in range(MAX_ARMS))
"""Bits of all arms."""

_SHELL = (0.93, 0.94, 0.95, 1.0)
_DARK = (0.22, 0.23, 0.25, 1.0)
_RUBBER = (0.10, 0.10, 0.11, 1.0)


@dataclass(frozen=True)
class _Link:
    """Inertia of one link about its centre of mass, in the link's frame; and its shell, a capsule."""

    mass: float
    com: tuple[float, float, float]
    inertia: tuple[float, float, float, float, float, float]
    """xx, yy, zz, xy, xz, yz; kg m2."""
    capsule: tuple[float, float, float, float, float, float, float]
    """Radius, from (3), to (3): self-collision capsules of the public URDF, shortened to its visual shell, metres."""


# [GAZ] by way of [URDF, inertial.yaml].
_LINKS = (
    _Link(4.970684, (0.003875, 0.002081, -0.04762), (0.70337, 0.70661, 0.009117, -0.000139, 0.006772, 0.019169),
          (0.06, 0, 0, -0.19, 0, 0, -0.03)),
    _Link(0.646926, (-0.003141, -0.02872, 0.003495), (0.007962, 0.02811, 0.025995, -0.003925, 0.010254, 0.000704),
          (0.06, 0, 0, -0.06, 0, 0, 0.06)),
    _Link(3.228604, (0.027518, 0.039252, -0.066502), (0.037242, 0.036155, 0.01083, -0.004761, -0.011396, -0.012805),
          (0.06, 0, 0, -0.145, 0, 0, -0.05)),
    _Link(3.587895, (-0.05317, 0.104419, 0.027454), (0.025853, 0.019552, 0.028323, 0.007796, -0.001332, 0.008641),
          (0.06, 0, 0, -0.05, 0, 0, 0.05)),
    _Link(1.225946, (-0.011953, 0.041065, -0.038437), (0.035549, 0.029474, 0.008627, -0.002117, -0.004037, 0.000229),
          (0.05, 0, 0.03, -0.25, 0, 0.05, -0.08)),
    _Link(1.666555, (0.060149, -0.014117, -0.010517), (0.001964, 0.004354, 0.005433, 0.000109, -0.001158, 0.000341),
          (0.05, 0, 0, -0.03, 0, 0, 0.01)),
    _Link(0.735522, (0.010517, -0.004252, 0.061597), (0.012516, 0.010027, 0.004815, -0.000428, -0.001196, -0.000741),
          (0.04, 0, 0, 0.01, 0, 0, 0.07)),
)  # fmt: skip


@dataclass(frozen=True)
class _Arm:
    """One of the scene's arms: the prefix of its names, and whom it meets."""

    prefix: str
    bit: int
    meets: int


def add_panda(
    spec: mujoco.MjSpec,
    prefix: str = "",
    index: int = 0,
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0),
    yaw: float = 0.0,
) -> None:
    """Add an arm, its hand, servos and cameras' mount to a scene.

    Actuators are, in order: seven joint position servos (radians), and one servo for the fingers' mean travel (metres).

    Args:
        spec: the scene.
        prefix: of all names.
        index: of the arm among at most `MAX_ARMS`.
        pos: where its base stands, metres.
        yaw: to where it faces, from the world's x axis, radians.
    """
    bit = ROBOT_BIT << index
    arm = _Arm(prefix, bit, TABLE_BIT | OBJECT_BIT | (ROBOT_BITS & ~bit))
    base = spec.worldbody.add_body(
        name=f"{prefix}panda_link0", pos=pos, quat=[math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)]
    )
    # [URDF]: a squat pedestal stands for the base's mesh.
    base.add_geom(type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[0.075, 0.07, 0], pos=[-0.03, 0, 0.07], rgba=_SHELL,
                  contype=0, conaffinity=0)  # fmt: skip
    body = base
    for number, link in enumerate(_LINKS):
        body = _add_link(arm, body, number, link)
    hand = body.add_body(
        name=prefix + HAND_BODY, pos=[0, 0, FLANGE_OFFSET], quat=[math.cos(HAND_YAW / 2), 0, 0, math.sin(HAND_YAW / 2)]
    )
    _add_hand(spec, arm, hand)
    for number, joint in enumerate(ARM_JOINTS):
        _add_servo(spec, prefix + joint, mujoco.mjtTrn.mjTRN_JOINT, ARM_KP[number], ARM_TORQUE[number])
    # The tendon is the fingers' mean travel: half of its force reaches each finger.
    _add_servo(spec, f"{prefix}panda_fingers", mujoco.mjtTrn.mjTRN_TENDON, 2.0 * _FINGER_KP, 2.0 * GRIP_FORCE)


def _add_link(arm: _Arm, parent: "mujoco.MjsBody", index: int, link: _Link) -> "mujoco.MjsBody":
    twist = DH_TWIST[index] * math.pi / 2
    # After the twist, z of the new frame is the joint's axis, along which d is measured.
    axis = (0.0, -math.sin(twist), math.cos(twist))
    body = parent.add_body(
        name=f"{arm.prefix}panda_link{index + 1}",
        pos=[DH_A[index], DH_D[index] * axis[1], DH_D[index] * axis[2]],
        quat=[math.cos(twist / 2), math.sin(twist / 2), 0, 0],
        mass=link.mass,
        ipos=link.com,
        fullinertia=link.inertia,
        explicitinertial=True,
        gravcomp=1.0,
    )
    body.add_joint(
        name=arm.prefix + ARM_JOINTS[index],
        type=mujoco.mjtJoint.mjJNT_HINGE,
        axis=[0, 0, 1],
        range=[JOINT_LOWER[index], JOINT_UPPER[index]],
        limited=True,
        armature=_ARMATURE,
        damping=ARM_DAMPING[index],
    )
    # The upper arm cannot reach the table within the joint limits of a useful grasp; only the forearm, the wrist and
    # the hand collide.
    collides = index >= 4
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CAPSULE,
        size=[link.capsule[0], 0, 0],
        fromto=link.capsule[1:],
        rgba=_SHELL,
        contype=arm.bit if collides else 0,
        conaffinity=arm.meets if collides else 0,
    )
    return body


def _add_hand(spec: mujoco.MjSpec, arm: _Arm, hand: "mujoco.MjsBody") -> None:
    # [URDF, inertial.yaml]; shape: a box of the hand's width and depth, between the flange and the fingers.
    hand.mass, hand.ipos, hand.inertia = 0.73, [-0.01, 0, 0.03], [0.001, 0.0025, 0.0017]
    hand.explicitinertial, hand.gravcomp = True, 1.0
    _robot_box(arm, hand, (0.02, 0.1, 0.033), (0, 0, 0.033), _SHELL)
    hand.add_site(name=f"{arm.prefix}panda_grasp", pos=[0, 0, GRASP_OFFSET], size=[0.004, 0, 0], rgba=[0, 0, 0, 0])
    for index, side in enumerate((1.0, -1.0)):
        _add_finger(arm, hand, index, side)
    tendon = spec.add_tendon(name=f"{arm.prefix}panda_fingers")
    for joint in FINGER_JOINTS:
        tendon.wrap_joint(arm.prefix + joint, 0.5)
    # The real fingers share one belt; the constraint is as stiff as the time step allows (time constant 2 dt).
    mimic = spec.add_equality(
        name=f"{arm.prefix}panda_finger_mimic",
        type=mujoco.mjtEq.mjEQ_JOINT,
        objtype=mujoco.mjtObj.mjOBJ_JOINT,
        name1=arm.prefix + FINGER_JOINTS[0],
        name2=arm.prefix + FINGER_JOINTS[1],
    )
    mimic.data[:5] = [0, 1, 0, 0, 0]
    mimic.solref[:] = [0.01, 1.0]
    mimic.solimp[:] = [0.95, 0.99, 0.001, 0.5, 2.0]


def _add_finger(arm: _Arm, hand: "mujoco.MjsBody", index: int, side: float) -> None:
    """A finger that opens along the hand's y axis; side +1 is the left one. Offsets: [URDF, franka_hand.xacro]."""
    name = arm.prefix + ("panda_leftfinger", "panda_rightfinger")[index]
    finger = hand.add_body(name=name, pos=[0, 0, 0.0584], mass=0.015, inertia=[2.375e-6, 2.375e-6, 7.5e-7],
                           ipos=[0, 0, 0], explicitinertial=True, gravcomp=1.0)  # fmt: skip
    finger.add_joint(name=arm.prefix + FINGER_JOINTS[index], type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, side, 0],
                     range=[0, MAX_FINGER], limited=True, armature=_FINGER_ARMATURE,
                     damping=GRIP_FORCE / FINGER_SPEED)  # fmt: skip
    # Carriage at the hand, then a strut that slants inwards by 30 degrees [URDF, franka_hand.xacro].
    _robot_box(arm, finger, (0.00875, 0.0076, 0.010), (0, side * 0.0158, 0.008), _DARK)
    strut = _robot_box(arm, finger, (0.00875, 0.0035, 0.01175), (0, side * 0.0159, 0.02835), _DARK)
    strut.quat[:] = [math.cos(math.pi / 12), side * math.sin(math.pi / 12), 0, 0]
    # Fingertip: 17 x 9.5 x 18.5 mm, its inner face on the plane where closed fingers meet; thickness of [MEN]'s pads.
    tip = _robot_box(arm, finger, (0.0085, 0.00475, 0.00925), (0, side * 0.00475, 0.04525), _RUBBER)
    tip.name = f"{name}_tip"
    tip.friction[:] = [1.5, 0.01, 0.001]
    tip.solref[:] = [0.01, 1.0]
    tip.solimp[:] = [0.97, 0.99, 0.001, 0.5, 2.0]
    tip.priority = 1


def _robot_box(
    arm: _Arm,
    body: "mujoco.MjsBody",
    half_size: tuple[float, float, float],
    pos: tuple[float, float, float],
    rgba: tuple[float, float, float, float],
) -> "mujoco.MjsGeom":
    return body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=half_size, pos=pos, rgba=rgba,
                         contype=arm.bit, conaffinity=arm.meets)  # fmt: skip


def _add_servo(spec: mujoco.MjSpec, target: str, transmission: mujoco.mjtTrn, kp: float, force: float) -> None:
    """Position servo: force kp (ctrl - length), limited to +-force."""
    servo = spec.add_actuator(name=f"{target}_servo", target=target, trntype=transmission)
    servo.gaintype, servo.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
    servo.gainprm[0] = kp
    servo.biasprm[:2] = [0.0, -kp]
    servo.forcelimited, servo.forcerange = True, [-force, force]
